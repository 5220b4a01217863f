/* What main.c takes of the machine. Each processor has its own processor.h, start.s and machine.c,
 * which also has what Kymo asks: the clock and the masking of interrupts. */
#ifndef MACHINE_H
#define MACHINE_H
#define KYMO_WITH_CONTEXTS /* its events can record who called them, and counts */
#include "kymo.h"

/* Numbers of interrupts in the trace; HAS_NMI; struct frame, which has `ip` and `fp`; KEEP_FRAME,
 * for functions that call none. And of a new thread's stack: how many words are left free at its
 * end, and which of them switch_stacks takes as the code and as the address to return to. */
#include "processor.h"

/* The processor's counters; NULL where nobody counts. */
const struct kymo_counting *machine_counters(void);

/* The clock has a frequency from then on. */
void machine_start(void);
void print_char(char c);
_Noreturn void power_off(void);
/* Lets interrupts come, and returns behind the first, masked again. */
void wait_for_interrupts(void);

/* Interrupts so often a second. */
void timer_start(uint32_t rate);
/* The timer may interrupt again. */
void timer_done(void);
/* NMIs so often a second from now on; 0: no more. */
void nmi_start(uint32_t rate);

/* Called with interrupts masked. */
void timer_interrupt(const struct frame *frame);
void nmi(const struct frame *frame);

/* Saves the registers that a function may not change, and takes up those of another stack. */
void switch_stacks(uintptr_t **from, uintptr_t *to);
void thread_begin(void);
_Noreturn void main(void);
/* The machine calls this for an exception that it has no handler for. */
_Noreturn void unexpected(void);
void thread_exit(void);

#endif
