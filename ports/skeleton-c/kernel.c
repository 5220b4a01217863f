/* A small kernel: three tasks that take turns at a timer interrupt, and wait for a mutex. What Kymo
 * needs of it stands between marks, step by step as in the book. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MTIME ((volatile uint32_t *)0x200bff8)
#define MTIMECMP ((volatile uint32_t *)0x2004000)
#define TEST_DEVICE ((volatile uint32_t *)0x100000)
#define HERTZ 10000000u
#define TICK (HERTZ / 1000)

struct task {
    uintptr_t *sp;
    uint32_t id; /* from 1; 0 is the idle task */
    char name[8];
    bool waits;
    _Alignas(16) uintptr_t stack[512];
};
static struct task tasks[4] = {{.name = "idle"}, {.name = "fast"}, {.name = "slow"}, {.name = "load"}};
static struct task *running = &tasks[0];
static struct task *owner; /* of the mutex */

void switch_stacks(uintptr_t **from, uintptr_t *to);
void task_begin(void);

static uint64_t now(void) {
    uint32_t high, low;
    do {
        high = MTIME[1];
        low = MTIME[0];
    } while (high != MTIME[1]);
    return (uint64_t)high << 32 | low;
}

static uintptr_t mask(void) {
    uintptr_t saved;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(saved) : : "memory");
    return saved & 8;
}

static void unmask(uintptr_t saved) { __asm__ volatile("csrs mstatus, %0" : : "r"(saved) : "memory"); }

static void print(const char *text) {
    while (*text != '\0')
        *(volatile uint8_t *)0x10000000 = (uint8_t)*text++;
}

/* port: begin */
#include "kymo.h"

KYMO_MEMORY(1, KYMO_REGION_SIZE(1, 256, 1024))

uint64_t kymo_port_clock(void) { return now(); }
uint64_t kymo_port_frequency(void) { return HERTZ; }
uint32_t kymo_port_cpu(void) { return 0; }
uintptr_t kymo_port_mask(void) { return mask(); }
void kymo_port_unmask(uintptr_t saved) { unmask(saved); }

#define WORK_DONE(FIELD) FIELD(u32, result)
#define MY_EVENTS(EVENT, BARE) EVENT(21, work_done, WORK_DONE)
KYMO_EVENTS(MY_EVENTS)
KYMO_EVENT_TABLE(my_events, MY_EVENTS)

static void dump_state(void) {
    kymo_irq_name(7, "timer", KYMO_TO_NUL);
    kymo_lock_name((uintptr_t)&owner, KYMO_LOCK_KIND_MUTEX, "mutex", KYMO_TO_NUL);
    for (struct task *task = tasks; task < tasks + 4; task++)
        kymo_thread_name(task->id, task->name, sizeof task->name);
}

static struct kymo_config config = {.dump_state = dump_state};

static void start_tracing(void) {
    KYMO_OWN(config, my_events);
    if (kymo_start(KYMO_TRACE, &config) < 0)
        print("kymo does not start\n");
}

KYMO_SAMPLER(sampler, 1)

static void prepare_samples(void) {
    config.samples_packets = 16;
    config.sample_period = TICK;
    config.sampler = &sampler;
}

extern const char code_start[], code_end[];

static void sample(uintptr_t pc, uintptr_t ra, uintptr_t fp) {
    const struct kymo_sample at = {
        .ip = pc,
        .fp = fp,
        .link = ra,
        .tid = running->id,
        .mode = running->id == 0 ? KYMO_CPU_MODE_IDLE : KYMO_CPU_MODE_KERNEL,
        .text = {(uintptr_t)code_start, (uintptr_t)code_end},
        .stacks = {{(uintptr_t)running->stack, (uintptr_t)(running->stack + 512), NULL}},
    };
    kymo_sample(&at);
}
/* port: end */

/* To the next task that does not wait; with interrupts masked. */
static void schedule(void) {
    struct task *from = running, *to = from;
    do
        to = to == tasks + 3 ? tasks + 1 : to + 1;
    while (to->waits && to != from);
    if (to == from)
        return;
    running = to;
    /* port: begin */
    if (from->waits)
        kymo_sched_switch_masked(from->id, to->id, KYMO_THREAD_STATE_BLOCKED,
                                 KYMO_SWITCH_REASON_WAITS, 0);
    else
        kymo_sched_switch_masked(from->id, to->id, KYMO_THREAD_STATE_RUNNABLE,
                                 KYMO_SWITCH_REASON_EXPIRED, 0);
    /* port: end */
    switch_stacks(&from->sp, to->sp);
}

static void lock(void) {
    uintptr_t saved = mask();
    bool contended = owner != NULL;
    if (contended) {
        /* port: begin */
        kymo_lock_wait_masked((uintptr_t)&owner, owner->id, KYMO_LOCK_KIND_MUTEX);
        /* port: end */
        while (owner != NULL) {
            running->waits = true;
            schedule();
        }
    }
    owner = running;
    /* port: begin */
    kymo_lock_acquired_masked((uintptr_t)&owner, KYMO_LOCK_KIND_MUTEX, contended);
    /* port: end */
    unmask(saved);
}

static void unlock(void) {
    uintptr_t saved = mask();
    /* port: begin */
    kymo_lock_release_masked((uintptr_t)&owner, KYMO_LOCK_KIND_MUTEX);
    /* port: end */
    owner = NULL;
    for (struct task *task = tasks; task < tasks + 4; task++)
        if (task->waits) {
            task->waits = false;
            /* port: begin */
            kymo_sched_wakeup_masked(task->id, running->id, 0);
            /* port: end */
        }
    unmask(saved);
}

uintptr_t trap(uintptr_t cause, uintptr_t pc, const uintptr_t *registers) {
    if (cause != 0x80000007u) {
        print("exception\n");
        *TEST_DEVICE = 0x13333;
    }
    /* port: begin */
    kymo_irq_handler_entry_masked(cause & 0xff);
    sample(pc, registers[0], ((const uintptr_t *)__builtin_frame_address(0))[-2]);
    /* port: end */
    MTIMECMP[1] = UINT32_MAX;
    uint64_t next = now() + TICK;
    MTIMECMP[0] = (uint32_t)next;
    MTIMECMP[1] = (uint32_t)(next >> 32);
    /* port: begin */
    kymo_irq_handler_exit_masked(cause & 0xff);
    /* port: end */
    schedule();
    return pc;
}

/* ---- What the tasks do ---- */

static volatile uint32_t rounds[4], sum;

__attribute__((noinline)) static void add(uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        sum += i;
}

__attribute__((noinline)) static void multiply(uint32_t count) {
    add(count);
    for (uint32_t i = 0; i < count; i++)
        sum *= i | 1;
}

static void finish(void) {
    mask();
    /* port: begin */
    kymo_stop(KYMO_TRACE);
    /* port: end */
    print("done\n");
    *TEST_DEVICE = 0x5555;
}

static void work(void *argument) {
    struct task *self = argument;
    while (now() < HERTZ / 5) {
        lock();
        add(1000);
        unlock();
        multiply(self->id * 10000);
        rounds[self->id]++;
        /* port: begin */
        trace_work_done(sum);
        /* port: end */
    }
    finish();
}

int main(void) {
    for (uint32_t id = 0; id < 4; id++) {
        struct task *task = &tasks[id];
        uintptr_t *frame = &task->stack[512 - 16];
        frame[0] = (uintptr_t)task_begin;
        frame[1] = (uintptr_t)work;
        frame[2] = (uintptr_t)task;
        task->sp = frame;
        task->id = id;
    }
    /* port: begin */
    prepare_samples();
    start_tracing();
    kymo_start(KYMO_SAMPLE, &config);
    /* port: end */
    MTIMECMP[1] = 0; /* An interrupt at once, and then one a millisecond. */
    MTIMECMP[0] = 0;
    __asm__ volatile("csrs mie, %0" : : "r"(0x80));
    unmask(8);
    for (;;)
        __asm__ volatile("wfi");
}
