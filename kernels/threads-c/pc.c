/* A PC, for 32 and for 64 bits. */
#include "pc.h"

static uint64_t hertz;

uint64_t kymo_port_clock(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
uint64_t kymo_port_frequency(void) { return hertz; }
uintptr_t kymo_port_mask(void) {
    uintptr_t saved;
    __asm__ volatile("pushf\n\tpop %0\n\tcli" : "=r"(saved) : : "memory");
    return saved;
}
void kymo_port_unmask(uintptr_t saved) {
    __asm__ volatile("push %0\n\tpopf" : : "r"(saved) : "memory", "cc");
}

const struct kymo_counting *machine_counters(void) { return NULL; }

void print_char(char c) { out8(0x3f8, (uint8_t)c); }

_Noreturn void power_off(void) {
    __asm__ volatile("outw %0, %1" : : "a"((uint16_t)0x2000), "Nd"((uint16_t)0x604));
    for (;;)
        ;
}

void wait_for_interrupts(void) { __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory"); }

/* Ticks of the time-stamp counter in 10 ms of the interval timer's second channel. */
void machine_start(void) {
    out8(0x61, (uint8_t)((in8(0x61) & ~2u) | 1u));
    out8(0x43, 0xb0);
    out8(0x42, INTERVAL_HERTZ / 100u & 0xff);
    out8(0x42, INTERVAL_HERTZ / 100u >> 8);
    const uint64_t begin = kymo_port_clock();
    while ((in8(0x61) & 0x20u) == 0)
        ;
    hertz = (kymo_port_clock() - begin) * 100u;
}
