/* What main.c takes of the machine: its ports here, the rest of one of the two folders. */
#ifndef MACHINE_H
#define MACHINE_H
#include "kymo.h"

/* Numbers of interrupts in the trace. */
enum { TIMER = 0, NMI = 2 };

#ifdef __x86_64__
/* Where a new thread's stack has these, for switch_stacks. */
enum { CODE = 3, RETURN = 6 };
enum { HAS_NMI = 1 };
/* What an interrupt has saved, and the processor. */
struct frame {
    uint64_t fp, r11, r10, r9, r8, di, si, dx, cx, ax, ip, cs, flags, sp, ss;
};
#else
enum { CODE = 1, RETURN = 4 };
enum { HAS_NMI = 0 };
struct frame {
    uint32_t di, si, fp, sp, bx, dx, cx, ax, ip, cs, flags;
};
#endif

static inline void out8(uint16_t port, uint8_t value) {
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}
static inline uint8_t in8(uint16_t port) {
    uint8_t value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

/* Interrupts so often a second; the time-stamp counter has `hertz` ticks a second. */
void timer_start(uint32_t interrupts, uint32_t hertz);
/* The timer may interrupt again. */
void timer_done(void);
/* NMIs so often a second from now on; 0: no more. */
void nmi_start(uint32_t rate);

/* Called by the entries of start.s, with interrupts masked. */
void timer_interrupt(const struct frame *frame);
void nmi(const struct frame *frame);

#endif
