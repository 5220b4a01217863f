/* The local APIC's timer interrupts; the interval timer makes NMIs, by the IOAPIC. */
#include "../pc.h"

void timer_entry(void);
void nmi_entry(void);

static volatile uint32_t *local(uintptr_t at) {
    return (volatile uint32_t *)(0xfee00000u + at);
}

static void route(uint32_t at, uint32_t value) {
    *(volatile uint32_t *)(uintptr_t)0xfec00000u = at;
    *(volatile uint32_t *)(uintptr_t)0xfec00010u = value;
}

static struct gate {
    uint16_t low, selector, flags, middle;
    uint32_t high, zero;
} gates[33];

static void set_gate(uint32_t vector, void (*code)(void)) {
    const uintptr_t entry = (uintptr_t)code;
    gates[vector] = (struct gate){(uint16_t)entry,         8, 0x8e00, (uint16_t)(entry >> 16),
                                  (uint32_t)(entry >> 32), 0};
}

void timer_start(uint32_t rate) {
    static KYMO_ALIGNED(8) struct {
        uint16_t padding[3], limit;
        const void *gates;
    } table;
    for (uint32_t vector = 0; vector < 32; vector++)
        set_gate(vector, unexpected);
    set_gate(2, nmi_entry);
    set_gate(32, timer_entry);
    table.limit = sizeof gates - 1;
    table.gates = gates;
    __asm__ volatile("lidt %0" : : "m"(table.limit), "m"(table) : "memory");
    out8(0x21, 0xff); /* The old interrupt controllers are silent. */
    out8(0xa1, 0xff);

    /* On, and `rate` times a second by ticks of 1/16 of the bus's clock, which is measured
     * by the time-stamp counter. */
    *local(0xf0) = 0x1ff;
    *local(0x3e0) = 3;
    *local(0x320) = 32u | 1u << 16;
    *local(0x380) = 0xffffffffu;
    const uint64_t end = kymo_port_clock() + kymo_port_frequency() / 100u;
    while (kymo_port_clock() < end)
        ;
    const uint32_t ticks = (0xffffffffu - *local(0x390)) * 100u;
    *local(0x320) = 32u | 1u << 17;
    *local(0x380) = ticks / rate;
}

void timer_done(void) { *local(0xb0) = 0; }

void nmi_start(uint32_t rate) {
    if (rate > 0) {
        const uint32_t count = INTERVAL_HERTZ / rate;
        out8(0x43, 0x34);
        out8(0x40, (uint8_t)count);
        out8(0x40, (uint8_t)(count >> 8));
    }
    /* Line 2, the interval timer's: to processor 0, as an NMI. */
    route(0x15, 0);
    route(0x14, rate > 0 ? 4u << 8 : 1u << 16);
}
