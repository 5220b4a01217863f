/* The clock, the interrupts and the memory, for a RISC-V hart in machine mode with mtime. */
#include "FreeRTOS.h"

KYMO_MEMORY(1, KYMO_REGION_SIZE(1, 256, 1024))

uint64_t kymo_port_clock(void) {
    volatile uint32_t *const mtime = (volatile uint32_t *)configMTIME_BASE_ADDRESS;
    uint32_t high, low;
    do {
        high = mtime[1];
        low = mtime[0];
    } while (high != mtime[1]);
    return (uint64_t)high << 32 | low;
}

uint64_t kymo_port_frequency(void) { return configCPU_CLOCK_HZ; }

uint32_t kymo_port_cpu(void) { return 0; }

uintptr_t kymo_port_mask(void) {
    uintptr_t saved;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(saved) : : "memory");
    return saved & 8;
}

void kymo_port_unmask(uintptr_t saved) {
    __asm__ volatile("csrs mstatus, %0" : : "r"(saved) : "memory");
}

kymo_irq kymo_freertos_irq(void) {
    uintptr_t cause;
    __asm__ volatile("csrr %0, mcause" : "=r"(cause));
    return cause & 0xff;
}
