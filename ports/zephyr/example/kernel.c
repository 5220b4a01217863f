#include "kernel.h"

#include <tracing_user.h>
#include <zephyr/sys/printk.h>

#define HOOK __attribute__((weak)) void

/* The hooks that nobody defines. */
HOOK sys_trace_thread_create_user(struct k_thread *thread) { ARG_UNUSED(thread); }
HOOK sys_trace_thread_suspend_user(struct k_thread *thread) { ARG_UNUSED(thread); }
HOOK sys_trace_thread_resume_user(struct k_thread *thread) { ARG_UNUSED(thread); }
HOOK sys_trace_thread_name_set_user(struct k_thread *thread) { ARG_UNUSED(thread); }
HOOK sys_trace_thread_switched_in_user(void) {}
HOOK sys_trace_thread_switched_out_user(void) {}
HOOK sys_trace_thread_priority_set_user(struct k_thread *thread, int prio) {
    ARG_UNUSED(thread);
    ARG_UNUSED(prio);
}
HOOK sys_trace_thread_sched_ready_user(struct k_thread *thread) { ARG_UNUSED(thread); }
HOOK sys_trace_thread_pend_user(struct k_thread *thread) { ARG_UNUSED(thread); }
HOOK sys_trace_isr_enter_user(void) {}
HOOK sys_trace_isr_exit_user(void) {}
HOOK sys_trace_idle_user(void) {}
HOOK sys_trace_sys_init_enter_user(const struct init_entry *entry, int level) {
    ARG_UNUSED(entry);
    ARG_UNUSED(level);
}
HOOK sys_trace_sys_init_exit_user(const struct init_entry *entry, int level, int result) {
    ARG_UNUSED(entry);
    ARG_UNUSED(level);
    ARG_UNUSED(result);
}

/* States of a thread that has not begun, and of one that sleeps. */
#ifdef LATER
#define NEW _THREAD_SLEEPING
#define ASLEEP _THREAD_SLEEPING
#define BEGIN (UINT32_MAX - 500)
#else
#define NEW _THREAD_PRESTART
#define ASLEEP _THREAD_SUSPENDED
#define BEGIN 0
#endif

struct thread *current;
uint32_t interrupts, ends, creations;

static struct thread *idle_thread, *all;
static uint32_t clock = BEGIN, since = BEGIN, nested, turns;
static sys_dnode_t timeouts = {&timeouts, &timeouts};

#define STATE(thread) (thread)->zephyr.base.thread_state

k_tid_t k_sched_current_thread_query(void) { return &current->zephyr; }
uint32_t k_cycle_get_32(void) { return clock; }
uint64_t k_cycle_get_64(void) { return clock; }

void k_thread_foreach(k_thread_user_cb_t callback, void *user_data) {
    for (struct k_thread *thread = &all->zephyr; thread != NULL; thread = thread->next_thread)
        callback(thread, user_data);
}

void runs(uint32_t cycles) { clock += cycles; }
uint32_t cycles_since_boot(void) { return clock - BEGIN; }

/* Of the most urgent threads that are ready, the one that is ready for the longest time. */
static struct thread *next_up(void) {
    struct thread *best = idle_thread;
    for (struct k_thread *one = &all->zephyr; one != NULL; one = one->next_thread) {
        struct thread *const thread = (struct thread *)one;
        const int ahead = best->zephyr.base.prio - one->base.prio;
        if (STATE(thread) & _THREAD_QUEUED &&
            (ahead > 0 || (ahead == 0 && thread->turn < best->turn)))
            best = thread;
    }
    return best;
}

void accounts(void) {
    if (current->switches > 0)
        current->cycles += clock - since;
    since = clock;
}

static void arrives(struct thread *to) {
    current = to;
    current->switches++;
    sys_trace_thread_switched_in_user();
    if (to == idle_thread)
        sys_trace_idle_user();
}

/* A thread gives up the CPU: the hook comes while it is the current one. */
static void swap(struct thread *to) {
    if (to == current)
        return;
    accounts();
    sys_trace_thread_switched_out_user();
    arrives(to);
}

static void reschedule(void) {
    if (nested == 0)
        swap(next_up());
}

static void set_up(struct thread *thread, const char *name, int prio) {
    char *at = thread->zephyr.name;
    for (; name != NULL && *name != '\0'; name++)
        *at++ = *name;
    *at = '\0';
    thread->zephyr.base.prio = (int8_t)prio;
    STATE(thread) = NEW;
    thread->zephyr.next_thread = &all->zephyr;
    all = thread;
}

static void ready(struct thread *thread) {
    if (STATE(thread) & (_THREAD_QUEUED | _THREAD_PENDING | NEW | _THREAD_DEAD | _THREAD_SUSPENDED))
        return;
    thread->wakeups++;
    sys_trace_thread_sched_ready_user(&thread->zephyr);
    STATE(thread) |= _THREAD_QUEUED;
    thread->turn = ++turns;
}

void kernel_boot(struct thread *main, struct thread *idle) {
    extern const struct init_entry init_of_kymo_zephyr_start;
    set_up(idle, "idle", K_IDLE_PRIO);
    set_up(main, "main", 0);
    idle_thread = idle;
    STATE(idle) = 0;
    STATE(main) = _THREAD_QUEUED;
    current = main;
    sys_trace_thread_switched_in_user();
    sys_trace_sys_init_enter_user(&init_of_kymo_zephyr_start, INIT_LEVEL_APPLICATION);
    const int result = init_of_kymo_zephyr_start.init_fn();
    sys_trace_sys_init_exit_user(&init_of_kymo_zephyr_start, INIT_LEVEL_APPLICATION, result);
    if (result != 0)
        fail("recording does not start");
}

void k_thread_create_named(struct thread *thread, const char *name, int prio) {
    set_up(thread, name, prio);
    creations++;
    sys_trace_thread_create_user(&thread->zephyr);
    STATE(thread) &= ~NEW;
    ready(thread);
    reschedule();
}

void k_thread_name_set(struct thread *thread, const char *name) {
    char *at = thread->zephyr.name;
    while ((*at++ = *name++) != '\0')
        ;
    sys_trace_thread_name_set_user(&thread->zephyr);
}

void k_thread_priority_set(struct thread *thread, int prio) {
    thread->zephyr.base.prio = (int8_t)prio;
    sys_trace_thread_priority_set_user(&thread->zephyr, prio);
    reschedule();
}

void k_thread_suspend(struct thread *thread) {
    sys_trace_thread_suspend_user(&thread->zephyr);
    thread->zephyr.base.timeout.node = (sys_dnode_t){NULL, NULL};
    STATE(thread) = (STATE(thread) & ~(_THREAD_QUEUED | ASLEEP)) | _THREAD_SUSPENDED;
    reschedule();
}

void k_thread_resume(struct thread *thread) {
    sys_trace_thread_resume_user(&thread->zephyr);
    STATE(thread) &= ~_THREAD_SUSPENDED;
    ready(thread);
    reschedule();
}

void k_thread_abort(struct thread *thread) {
    STATE(thread) = _THREAD_DEAD;
    ends++;
    thread_abort_hook(&thread->zephyr);
    reschedule();
}

static void times_out(struct thread *thread) {
    thread->zephyr.base.timeout.node = (sys_dnode_t){&timeouts, &timeouts};
}

void k_sleep(void) {
    STATE(current) = ASLEEP;
    times_out(current);
    reschedule();
}

void slice_ends(void) { current->turn = ++turns; }

void k_yield(void) {
    slice_ends();
    reschedule();
}

void pends(bool timeout) {
    STATE(current) = _THREAD_PENDING;
    sys_trace_thread_pend_user(&current->zephyr);
    if (timeout)
        times_out(current);
    reschedule();
}

void isr_begins(uint32_t irq) {
    __asm__ volatile("csrw mcause, %0" : : "r"(irq | 1u << 31));
    nested++;
    interrupts++;
    sys_trace_isr_enter_user();
}

/* At the end of the outermost interrupt, the hook for a thread that is switched out is called even
 * if the same thread goes on. */
void isr_ends(void) {
    sys_trace_isr_exit_user();
    if (--nested > 0)
        return;
    struct thread *const next = next_up();
    accounts();
    sys_trace_thread_switched_out_user();
    if (next != current)
        arrives(next);
}

void readies(struct thread *thread) {
    thread->zephyr.base.timeout.node = (sys_dnode_t){NULL, NULL};
    STATE(thread) &= ~(_THREAD_PENDING | ASLEEP);
    ready(thread);
}
