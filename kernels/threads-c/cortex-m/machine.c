/* QEMU's MPS2 boards: SysTick, a timer of 32 bits as the clock, a UART; semihosting ends the machine. */
#include "machine.h"

#define HERTZ 25000000u

static volatile uint32_t *at(uintptr_t address) { return (volatile uint32_t *)address; }
#define TIMER_0 0x40000000u
#define UART_0 0x40004000u
#define SYSTICK 0xe000e010u

/* Called with interrupts masked, and more often than every 171 s. */
uint64_t kymo_port_clock(void) {
    static uint32_t last, turns;
    const uint32_t now = 0xffffffffu - *at(TIMER_0 + 4);
    turns += now < last;
    last = now;
    return (uint64_t)turns << 32 | now;
}
uint64_t kymo_port_frequency(void) { return HERTZ; }
uintptr_t kymo_port_mask(void) {
    uintptr_t saved;
    __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(saved) : : "memory");
    return saved;
}
void kymo_port_unmask(uintptr_t saved) {
    __asm__ volatile("msr primask, %0" : : "r"(saved) : "memory");
}

const struct kymo_counting *machine_counters(void) { return NULL; }

void print_char(char c) { *at(UART_0) = (uint8_t)c; }

/* Semihosting's SYS_EXIT: the application has ended. */
_Noreturn void power_off(void) {
    __asm__ volatile("movs r0, #0x18\n\tldr r1, =0x20026\n\tbkpt #0xab" : : : "r0", "r1");
    for (;;)
        ;
}

void machine_start(void) {
    *at(UART_0 + 16) = 16;
    *at(UART_0 + 8) = 1;
    *at(TIMER_0 + 8) = 0xffffffffu;
    *at(TIMER_0 + 4) = 0xffffffffu;
    *at(TIMER_0) = 1;
}

/* wfi returns although they are masked; then the interrupt comes. */
void wait_for_interrupts(void) {
    __asm__ volatile("wfi\n\tcpsie i\n\tisb\n\tcpsid i" : : : "memory");
}

void timer_start(uint32_t rate) {
    *at(SYSTICK + 4) = HERTZ / rate - 1u;
    *at(SYSTICK + 8) = 0;
    *at(SYSTICK) = 7;
}

void timer_done(void) {}
void nmi_start(uint32_t rate) { (void)rate; }
