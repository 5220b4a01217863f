/* A stand-in for Zephyr's scheduler, on one CPU. Threads have no code and no stack: a script says
 * what the current one does, and for how long. The hooks are called where Zephyr 3.7.0 calls them, in
 * its order. */
#ifndef KERNEL_H
#define KERNEL_H
#include <zephyr/kernel.h>

/* A thread, with what the kernel itself counts: switches to it, the cycles that it ran since the
 * first of them, and how often it became ready. */
struct thread {
    struct k_thread zephyr;
    uint32_t cycles, switches, wakeups, turn;
};

extern struct thread *current;
extern uint32_t interrupts, ends, creations;

/* Starts the kernel, with these threads, and recording. */
void kernel_boot(struct thread *main, struct thread *idle);

/* The current thread, or the interrupt, runs for some cycles. */
void runs(uint32_t cycles);
uint32_t cycles_since_boot(void);

/* The name may be null. */
void k_thread_create_named(struct thread *thread, const char *name, int prio);
void k_thread_name_set(struct thread *thread, const char *name);
void k_thread_priority_set(struct thread *thread, int prio);
void k_thread_suspend(struct thread *thread);
void k_thread_resume(struct thread *thread);
void k_thread_abort(struct thread *thread);
void k_sleep(void);
void k_yield(void);
/* The current thread waits for an object, with or without a limit of time. */
void pends(bool timeout);

/* An interrupt with this number begins, and ends. In between, it may: */
void isr_begins(uint32_t irq);
void isr_ends(void);
/* give a thread what it waits for, or end its sleep; */
void readies(struct thread *thread);
/* end the time slice of the current thread. */
void slice_ends(void);

/* Counts the cycles of the current thread up to now. */
void accounts(void);
void fail(const char *why) __attribute__((noreturn));

#endif
