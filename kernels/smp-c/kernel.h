/* A small kernel for several RISC-V harts: threads that any hart may run, mutexes, and programs in
 * user mode. Nothing is allocated: whoever uses an object defines it. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HARTS 4u /* start.s, too */
#define STACK_WORDS 1024
#define TICKS_A_SECOND 1000u
#define CLOCK_FREQUENCY 10000000u
/* Ticks after which a thread gives way to others that are ready. */
#define SLICE 2u

/* What a trap has saved; start.s has the same offsets. */
struct trap_frame {
    uintptr_t x[32]; /* by number; x[0] is not used */
    uintptr_t pc, status;
};
enum { RA = 1, SP = 2, FP = 8, A0 = 10, A7 = 17 };

enum thread_state { THREAD_READY, THREAD_WAITS, THREAD_SLEEPS, THREAD_ENDED };

struct thread {
    uintptr_t *sp;       /* where switch_stacks left the registers */
    struct thread *next; /* in the queue that it stands in */
    struct thread *all;  /* the next thread of the system */
    const char *name;
    uint32_t id;      /* 0: the idle thread of a hart */
    uint32_t program; /* the program's id; 0: it works for the kernel */
    enum thread_state state;
    uint32_t slice;
    uint64_t wake_at;               /* tick */
    const struct trap_frame *entry; /* how its program has entered the kernel; NULL: it has not */
    _Alignas(16) uintptr_t stack[STACK_WORDS];
    _Alignas(16) uintptr_t program_stack[STACK_WORDS];
};

struct queue {
    struct thread *first;
};

/* Not recursive; what is released goes to the first who waits. */
struct mutex {
    const char *name;
    struct thread *owner;
    struct queue waiting;
};
#define MUTEX(text) {.name = (text)}

/* A processor, and what it did, counted by itself. */
struct hart {
    struct thread *running;
    struct thread idle;
    bool is_expired;       /* the running thread has used up its slice */
    uint64_t next_tick, next_sample;
    uint32_t answered;     /* the last request of harts_synchronize that it has seen */
    bool runs, is_held;
    unsigned switches, wakeups, interrupts, syscalls, waits;
};

/* ---- thread.c ---- */

/* Begins a thread, which ends when `code` returns. */
void thread_create(struct thread *thread, const char *name, void (*code)(void *), void *argument);
/* Begins a program in user mode, which ends by SYSCALL_EXIT. */
void program_create(struct thread *thread, const char *name, void (*code)(uintptr_t),
                    uintptr_t argument);
_Noreturn void thread_exit(void);
void thread_sleep(uint32_t ticks);
/* Waits until the thread has ended. */
void thread_join(const struct thread *thread);
void mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);
extern struct thread *all_threads;

/* For interrupts, on their hart. */
void scheduler_tick(struct hart *hart);
void schedule_if_needed(struct hart *hart);
_Noreturn void scheduler_run(void);

/* ---- trap.c ---- */

extern struct hart harts[HARTS];
/* Holds as long as interrupts are masked, and no longer. */
struct hart *this_hart(void);
uintptr_t interrupts_mask(void);
void interrupts_restore(uintptr_t saved);
uint64_t clock_now(void);
/* Interrupts another hart. */
void hart_kick(const struct hart *hart);
/* Returns when every other hart that runs has answered an interrupt. */
void harts_synchronize(void);
/* Returns when every hart has called kymo_counting_tick, this one too. */
void harts_count(void);
/* Stops the other harts for good; interrupts are masked from then on. They still answer
 * harts_synchronize. */
void harts_hold(void);
void harts_start(void);
void timer_start(struct hart *hart);

/* %s and %u. */
void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void machine_exit(int status);

/* ---- program.c: what runs in user mode ---- */

enum syscall { SYSCALL_EXIT = 1, SYSCALL_SLEEP = 2, SYSCALL_SUM = 3, SYSCALLS };
void program_main(uintptr_t rounds);

/* ---- port.c ---- */

void tracing_start(void);
void tracing_stop(void);
void take_sample(const struct hart *hart, const struct trap_frame *frame, uint32_t missed);

#endif
