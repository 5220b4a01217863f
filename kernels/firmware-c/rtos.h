/* A small real-time kernel: pre-emptive tasks with priorities, semaphores, mutexes, pipes and
 * message queues, for one RISC-V hart in M-mode. Nothing is allocated: whoever uses an object
 * defines it. */
#ifndef RTOS_H
#define RTOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Tasks ---- */

/* The more, the more urgent. The idle task alone has 0. */
#define PRIORITIES 8
#ifndef STACK_WORDS
#define STACK_WORDS 512
#endif
/* Ticks of the timer: 1 ms. */
#define TICKS_A_SECOND 1000
/* Ticks after which another ready task of the same priority has its turn. */
#define SLICE 5

enum task_state { TASK_READY, TASK_BLOCKED, TASK_SLEEPING, TASK_SUSPENDED, TASK_ENDED };

struct task {
    uintptr_t *sp; /* where switch_stacks left the registers */
    struct task *next; /* in the queue that it stands in */
    struct queue *in;
    uint32_t id; /* never used twice; 0 is the idle task */
    const char *name;
    uint32_t priority;
    uint32_t slice; /* ticks that it may still run, if others of its priority are ready */
    enum task_state state;
    bool suspend; /* once it waits for nothing else any more */
    uint64_t wake_at; /* tick */
    struct task *all; /* the next task of the system */
    _Alignas(16) uintptr_t stack[STACK_WORDS];
};

/* Tasks that wait for the same, in their order. */
struct queue {
    struct task *first;
};

/* Begins a task, which ends when `code` returns. `task` is its memory: it must outlive it. */
void task_create(struct task *task, const char *name, uint32_t priority, void (*code)(void *),
                 void *argument);
void task_yield(void);
void task_delay(uint32_t ticks);
/* The running task itself may be suspended too; one that waits is, as soon as it has got what it
 * waits for. False where it has ended or is suspended already. */
bool task_suspend(struct task *task);
/* False where it is not suspended. */
bool task_resume(struct task *task);
/* Waits until the task has ended. */
void task_join(struct task *task);
extern struct task *running;

/* ---- Objects. Each has a name, and counts its own id ---- */

struct semaphore {
    const char *name;
    uint32_t count;
    struct queue waiting;
};
#define SEMAPHORE(text, first) {.name = (text), .count = (first)}
void semaphore_wait(struct semaphore *semaphore);
bool semaphore_try(struct semaphore *semaphore);
/* Also from interrupts. */
void semaphore_post(struct semaphore *semaphore);

/* Not recursive; only its owner may release it. */
struct mutex {
    const char *name;
    struct task *owner;
    struct queue waiting;
};
#define MUTEX(text) {.name = (text)}
void mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);

/* Bytes, of one writer and one reader at a time. */
struct pipe {
    uint8_t *bytes;
    size_t size, used, first;
    struct queue readers, writers;
};
#define PIPE(array) {.bytes = (array), .size = sizeof(array)}
/* Waits until there is something; returns how many bytes there were, `size` at most. */
size_t pipe_read(struct pipe *pipe, void *bytes, size_t size);
/* Waits until all bytes are in the pipe. */
void pipe_write(struct pipe *pipe, const void *bytes, size_t size);
/* Without waiting; returns how many bytes went through. */
size_t pipe_try_read(struct pipe *pipe, void *bytes, size_t size);
size_t pipe_try_write(struct pipe *pipe, const void *bytes, size_t size);

/* Messages of one word. */
struct messages {
    uint32_t *words;
    size_t size, used, first;
    struct queue receivers, senders;
};
#define MESSAGES(array) {.words = (array), .size = sizeof(array) / sizeof((array)[0])}
void message_send(struct messages *messages, uint32_t message);
uint32_t message_receive(struct messages *messages);

/* ---- Interrupts, time, console ---- */

uintptr_t interrupts_mask(void);
void interrupts_restore(uintptr_t saved);
/* Ticks since the start. */
uint64_t ticks(void);
/* The hardware's clock, in steps of 100 ns. */
uint64_t clock_now(void);
#define CLOCK_FREQUENCY 10000000u

void console_write(const char *text, size_t size);
/* %s, %u and %x. */
void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void machine_exit(int status);

/* What the kernel did, counted by itself. */
struct statistics {
    unsigned switches, interrupts, exceptions, wakeups, sent, received, written, read;
};
extern struct statistics statistics;

/* ---- Between the kernel's own files ---- */

/* All with interrupts masked. */
extern bool in_interrupt;
void task_block(struct queue *queue, enum task_state state);
struct task *task_wake_first(struct queue *queue);
_Noreturn void scheduler_start(void (*code)(void *));
void scheduler_tick(void);
void schedule_if_needed(void);
_Noreturn void task_end(void);
void timer_start(void);
void take_sample(uintptr_t pc, uintptr_t fp, uintptr_t ra, uint32_t missed);
void sampling_changed(uint64_t period);
extern struct task *all_tasks;

#endif
