/* QEMU's `virt` with GICv2: the generic timer, a PL011. */
#include "machine.h"

static volatile uint32_t *distributor(uintptr_t at) {
    return (volatile uint32_t *)(0x08000000u + at);
}
static volatile uint32_t *interface(uintptr_t at) {
    return (volatile uint32_t *)(0x08010000u + at);
}

KYMO_COUNTING_READY(counting, 1)
const struct kymo_counting *machine_counters(void) { return &counting; }

uint64_t kymo_port_clock(void) {
    uint64_t now;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(now));
    return now;
}
uint64_t kymo_port_frequency(void) {
    uint64_t hertz;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
    return hertz;
}
uintptr_t kymo_port_mask(void) {
    uintptr_t saved;
    __asm__ volatile("mrs %0, daif\n\tmsr daifset, #2" : "=r"(saved) : : "memory");
    return saved;
}
void kymo_port_unmask(uintptr_t saved) {
    __asm__ volatile("msr daif, %0" : : "r"(saved) : "memory");
}

void print_char(char c) { *(volatile uint32_t *)(uintptr_t)0x09000000u = (uint8_t)c; }

/* PSCI's SYSTEM_OFF. */
_Noreturn void power_off(void) {
    register uint64_t function __asm__("x0") = 0x84000008u;
    __asm__ volatile("hvc #0" : : "r"(function) : "memory");
    for (;;)
        ;
}

void machine_start(void) {}

/* wfi returns although they are masked; then the interrupt comes. */
void wait_for_interrupts(void) {
    __asm__ volatile("wfi\n\tmsr daifclr, #2\n\tisb\n\tmsr daifset, #2" : : : "memory");
}

static uint64_t period, next;

static void set_timer(void) {
    __asm__ volatile("msr cntv_cval_el0, %0\n\tmsr cntv_ctl_el0, %1\n\tisb" : : "r"(next), "r"(1ul));
}

void timer_start(uint32_t rate) {
    *distributor(0) = 1;
    *distributor(0x100) = 1u << TIMER;
    *interface(4) = 0xff; /* all priorities */
    *interface(0) = 1;
    period = kymo_port_frequency() / rate;
    next = kymo_port_clock() + period;
    set_timer();
}

void timer_done(void) {
    const uint32_t taken = *interface(12);
    next += period;
    set_timer();
    *interface(16) = taken;
}

void nmi_start(uint32_t rate) { (void)rate; }
