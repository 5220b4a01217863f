/* Threads, which any hart may run. One lock guards them all; whoever holds it has interrupts
 * masked. A hart that switches gives the lock to the thread that it goes on with. */
#include "counters.h"
#include "kernel.h"

void switch_stacks(uintptr_t **from, uintptr_t *to);
void thread_begin(void);
void program_begin(void);

struct thread *all_threads;
static uint32_t is_locked;
static struct queue ready, sleeping, joining;
static uint32_t next_id = 1, next_program = 1;
static uint64_t now;

static uintptr_t lock(void) {
    uintptr_t saved = interrupts_mask();
    while (__atomic_exchange_n(&is_locked, 1, __ATOMIC_ACQUIRE) != 0)
        ;
    return saved;
}

static void unlock(uintptr_t saved) {
    __atomic_store_n(&is_locked, 0, __ATOMIC_RELEASE);
    interrupts_restore(saved);
}

static void put_last(struct queue *queue, struct thread *thread) {
    struct thread **end = &queue->first;
    while (*end != NULL)
        end = &(*end)->next;
    thread->next = NULL;
    *end = thread;
}

static struct thread *take_first(struct queue *queue) {
    struct thread *first = queue->first;
    if (first != NULL)
        queue->first = first->next;
    return first;
}

static enum kymo_thread_state trace_state(const struct thread *thread) {
    static const uint8_t states[] = {
        [THREAD_READY] = KYMO_THREAD_STATE_RUNNABLE,
        [THREAD_WAITS] = KYMO_THREAD_STATE_BLOCKED,
        [THREAD_SLEEPS] = KYMO_THREAD_STATE_SLEEPING,
        [THREAD_ENDED] = KYMO_THREAD_STATE_ENDED,
    };
    return (enum kymo_thread_state)states[thread->state];
}

/* To the first thread that is ready; the running one goes on if it can and there is no other. */
static void schedule(enum kymo_switch_reason reason) {
    struct hart *hart = this_hart();
    struct thread *from = hart->running, *to = take_first(&ready);
    hart->is_expired = false;
    if (to == NULL) {
        if (from->state == THREAD_READY)
            return;
        to = &hart->idle;
    }
    if (from->state == THREAD_READY && from != &hart->idle)
        put_last(&ready, from);
    to->slice = SLICE;
    hart->running = to;
    hart->switches++;
    count_switches_masked(1);
    kymo_happened(KYMO_SOFTWARE_CONTEXT_SWITCHES, true);
    kymo_sched_switch_masked(from->id, to->id, trace_state(from), reason, 0);
    switch_stacks(&from->sp, to->sp);
}

static void make_ready(struct thread *thread) {
    thread->state = THREAD_READY;
    put_last(&ready, thread);
    for (struct hart *hart = harts; hart < &harts[HARTS]; hart++)
        if (hart->running == &hart->idle) {
            if (hart != this_hart())
                hart_kick(hart);
            return;
        }
}

static void wake(struct thread *thread) {
    this_hart()->wakeups++;
    kymo_sched_wakeup_masked(thread->id, KYMO_TID_UNKNOWN, KYMO_CPU_UNKNOWN);
    make_ready(thread);
}

static void wait_in(struct queue *queue, enum thread_state state) {
    struct thread *thread = this_hart()->running;
    thread->state = state;
    put_last(queue, thread);
    schedule(KYMO_SWITCH_REASON_WAITS);
}

/* The first that a new thread does: its hart has switched to it with the lock. */
void thread_started(void) { __atomic_store_n(&is_locked, 0, __ATOMIC_RELEASE); }

static void begin(struct thread *thread, const char *name, uint32_t program) {
    uintptr_t saved = lock();
    thread->id = next_id++;
    thread->name = name;
    thread->program = program;
    thread->all = all_threads;
    all_threads = thread;
    kymo_thread_name(thread->id, name, KYMO_TO_NUL);
    kymo_thread_create_masked(thread->id, program, this_hart()->running->id, 0);
    make_ready(thread);
    unlock(saved);
}

void thread_create(struct thread *thread, const char *name, void (*code)(void *), void *argument) {
    uintptr_t *context = &thread->stack[STACK_WORDS - 14];
    context[0] = (uintptr_t)thread_begin;
    context[2] = (uintptr_t)code;
    context[3] = (uintptr_t)argument;
    thread->sp = context;
    begin(thread, name, 0);
}

void program_create(struct thread *thread, const char *name, void (*code)(uintptr_t),
                    uintptr_t argument) {
    struct trap_frame *frame = (struct trap_frame *)&thread->stack[STACK_WORDS] - 1;
    uintptr_t *context = (uintptr_t *)frame - 14;
    frame->x[SP] = (uintptr_t)&thread->program_stack[STACK_WORDS];
    frame->x[A0] = argument;
    frame->pc = (uintptr_t)code;
    frame->status = 0x80; /* to user mode, with interrupts */
    context[0] = (uintptr_t)program_begin;
    thread->sp = context;
    uint32_t program = __atomic_fetch_add(&next_program, 1, __ATOMIC_RELAXED);
    kymo_process_name(program, name, KYMO_TO_NUL);
    begin(thread, name, program);
}

_Noreturn void thread_exit(void) {
    lock();
    struct thread *thread = this_hart()->running, *waiting;
    thread->state = THREAD_ENDED;
    kymo_thread_exit_masked(thread->id, thread->program, KYMO_THREAD_STATE_RUNNABLE);
    while ((waiting = take_first(&joining)) != NULL)
        wake(waiting);
    schedule(KYMO_SWITCH_REASON_ENDED);
    __builtin_unreachable();
}

void thread_sleep(uint32_t ticks) {
    uintptr_t saved = lock();
    this_hart()->running->wake_at = now + ticks;
    wait_in(&sleeping, THREAD_SLEEPS);
    unlock(saved);
}

void thread_join(const struct thread *thread) {
    uintptr_t saved = lock();
    while (thread->state != THREAD_ENDED)
        wait_in(&joining, THREAD_WAITS);
    unlock(saved);
}

void mutex_lock(struct mutex *mutex) {
    uintptr_t saved = lock();
    bool contended = mutex->owner != NULL;
    if (contended) {
        this_hart()->waits++;
        kymo_lock_wait_masked((uintptr_t)mutex, mutex->owner->id, KYMO_LOCK_KIND_MUTEX);
        wait_in(&mutex->waiting, THREAD_WAITS);
    } else {
        mutex->owner = this_hart()->running;
    }
    kymo_lock_acquired_masked((uintptr_t)mutex, KYMO_LOCK_KIND_MUTEX, contended);
    unlock(saved);
}

void mutex_unlock(struct mutex *mutex) {
    uintptr_t saved = lock();
    kymo_lock_release_masked((uintptr_t)mutex, KYMO_LOCK_KIND_MUTEX);
    mutex->owner = take_first(&mutex->waiting);
    if (mutex->owner != NULL)
        wake(mutex->owner);
    unlock(saved);
}

/* Hart 0's tick is the time; every hart's takes from its thread's slice. */
void scheduler_tick(struct hart *hart) {
    if (hart == &harts[0]) {
        uintptr_t saved = lock();
        struct queue before = sleeping;
        struct thread *thread;
        now++;
        sleeping.first = NULL;
        while ((thread = take_first(&before)) != NULL) {
            if (thread->wake_at <= now)
                wake(thread);
            else
                put_last(&sleeping, thread);
        }
        unlock(saved);
    }
    if (hart->running->slice > 0)
        hart->running->slice--;
    hart->is_expired = hart->running->slice == 0;
}

/* At the end of an interrupt. */
void schedule_if_needed(struct hart *hart) {
    uintptr_t saved = lock();
    if (hart->running == &hart->idle) {
        if (ready.first != NULL)
            schedule(KYMO_SWITCH_REASON_IDLE);
    } else if (hart->is_expired) {
        schedule(KYMO_SWITCH_REASON_EXPIRED);
    }
    unlock(saved);
}

/* Goes on as the hart's idle thread. */
_Noreturn void scheduler_run(void) {
    for (;;) {
        /* An interrupt that is masked ends the wait, too. */
        uintptr_t saved = interrupts_mask();
        schedule_if_needed(this_hart());
        __asm__ volatile("wfi");
        interrupts_restore(saved);
    }
}
