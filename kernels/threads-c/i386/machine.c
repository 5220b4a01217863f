/* The interval timer interrupts by the interrupt controllers. */
#include "../pc.h"

void timer_entry(void);

static struct gate {
    uint16_t low, selector, flags, high;
} gates[33];

static void set_gate(uint32_t vector, void (*code)(void)) {
    const uintptr_t entry = (uintptr_t)code;
    gates[vector] = (struct gate){(uint16_t)entry, 8, 0x8e00, (uint16_t)(entry >> 16)};
}

void timer_start(uint32_t rate) {
    static KYMO_ALIGNED(4) struct {
        uint16_t padding, limit;
        const void *gates;
    } table;
    for (uint32_t vector = 0; vector < 32; vector++)
        set_gate(vector, unexpected);
    set_gate(32, timer_entry);
    table.limit = sizeof gates - 1;
    table.gates = gates;
    __asm__ volatile("lidt %0" : : "m"(table.limit), "m"(table) : "memory");
    /* Both interrupt controllers: lines from 32 on, and only line 0 is open. */
    static const uint8_t words[][4] = {{0x11, 32, 4, 1}, {0x11, 40, 2, 1}};
    for (uint16_t chip = 0; chip < 2; chip++) {
        const uint16_t port = chip == 0 ? 0x20 : 0xa0;
        out8(port, words[chip][0]);
        for (uint32_t word = 1; word < 4; word++)
            out8((uint16_t)(port + 1), words[chip][word]);
        out8((uint16_t)(port + 1), chip == 0 ? 0xfe : 0xff);
    }
    const uint32_t count = INTERVAL_HERTZ / rate;
    out8(0x43, 0x34);
    out8(0x40, (uint8_t)count);
    out8(0x40, (uint8_t)(count >> 8));
}

void timer_done(void) { out8(0x20, 0x20); }
void nmi_start(uint32_t rate) { (void)rate; }
