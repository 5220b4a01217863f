/* A PC's ports. */
#ifndef PC_H
#define PC_H
#include "machine.h"

/* What the interval timer counts down by in a second. */
#define INTERVAL_HERTZ 1193182u

static inline void out8(uint16_t port, uint8_t value) {
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}
static inline uint8_t in8(uint16_t port) {
    uint8_t value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

#endif
