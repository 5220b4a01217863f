/* QEMU's `virt` with OpenSBI, which enters the kernel in S-mode: the firmware's timer, a UART. */
#include "machine.h"

#define HERTZ 10000000u
#define UART 0x10000000u
#define SBI_TIME 0x54494d45u
#define SBI_RESET 0x53525354u

KYMO_COUNTING_READY(counting, 1)
const struct kymo_counting *machine_counters(void) { return &counting; }

uint64_t kymo_port_clock(void) {
    uint64_t now;
    __asm__ volatile("csrr %0, time" : "=r"(now));
    return now;
}
uint64_t kymo_port_frequency(void) { return HERTZ; }
uintptr_t kymo_port_mask(void) {
    uintptr_t saved;
    __asm__ volatile("csrrci %0, sstatus, 2" : "=r"(saved) : : "memory");
    return saved;
}
void kymo_port_unmask(uintptr_t saved) {
    __asm__ volatile("csrs sstatus, %0" : : "r"(saved & 2u) : "memory");
}

/* Function 0 of an extension of the firmware. */
static void firmware(uintptr_t extension, uintptr_t argument) {
    register uintptr_t a0 __asm__("a0") = argument;
    register uintptr_t a1 __asm__("a1") = 0;
    register uintptr_t a6 __asm__("a6") = 0;
    register uintptr_t a7 __asm__("a7") = extension;
    __asm__ volatile("ecall" : "+r"(a0), "+r"(a1) : "r"(a6), "r"(a7) : "memory");
}

void print_char(char c) { *(volatile uint8_t *)(uintptr_t)UART = (uint8_t)c; }

_Noreturn void power_off(void) {
    firmware(SBI_RESET, 0);
    for (;;)
        ;
}

void machine_start(void) {}

/* wfi returns although they are masked; then the interrupt comes. */
void wait_for_interrupts(void) {
    __asm__ volatile("wfi\n\tcsrsi sstatus, 2\n\tnop\n\tcsrci sstatus, 2" : : : "memory");
}

static uint64_t period, next;

void timer_start(uint32_t rate) {
    period = HERTZ / rate;
    next = kymo_port_clock() + period;
    firmware(SBI_TIME, next);
    __asm__ volatile("csrs sie, %0" : : "r"(1ul << TIMER));
}

void timer_done(void) {
    next += period;
    firmware(SBI_TIME, next);
}

void nmi_start(uint32_t rate) { (void)rate; }
