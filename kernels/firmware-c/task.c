/* Tasks and the scheduler. Whatever changes them masks interrupts. */
#include "events.h"
#include "rtos.h"

void switch_stacks(uintptr_t **from, uintptr_t *to);
void task_begin(void);

struct task *running;
struct task *all_tasks;
struct statistics statistics;

static struct task idle = {.name = "idle"};
static struct queue ready[PRIORITIES];
static struct queue sleeping, joining;
static uint32_t next_id = 1;
static uint64_t now;
/* Why the running task should give way, once it may. */
static bool is_preempted, is_expired;

static void put_last(struct queue *queue, struct task *task) {
    struct task **end = &queue->first;
    while (*end != NULL)
        end = &(*end)->next;
    task->next = NULL;
    task->in = queue;
    *end = task;
}

static void put_first(struct queue *queue, struct task *task) {
    task->next = queue->first;
    task->in = queue;
    queue->first = task;
}

static void take_out(struct task *task) {
    struct task **at = &task->in->first;
    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    task->in = NULL;
}

/* The most urgent, of these the first. */
static struct task *most_urgent(const struct queue *queue) {
    struct task *best = queue->first;
    for (struct task *task = best; task != NULL; task = task->next)
        if (task->priority > best->priority)
            best = task;
    return best;
}

static struct task *next_task(void) {
    for (uint32_t priority = PRIORITIES; priority-- > 0;)
        if (ready[priority].first != NULL)
            return ready[priority].first;
    return NULL;
}

/* To the next ready task, which may be the running one. */
static void schedule(enum kymo_switch_reason reason) {
    struct task *from = running, *to = next_task();
    is_preempted = is_expired = false;
    if (to == NULL)
        to = &idle;
    else
        take_out(to);
    if (to == from)
        return;
    running = to;
    statistics.switches++;
    kymo_sched_switch_masked(from->id, to->id, trace_state(from), reason, (int16_t)to->priority);
    switch_stacks(&from->sp, to->sp);
}

static void make_ready(struct task *task) {
    task->state = TASK_READY;
    task->slice = SLICE;
    put_last(&ready[task->priority], task);
    is_preempted |= task->priority > running->priority;
}

/* What a task has waited for has come. */
static void wake(struct task *task) {
    take_out(task);
    if (task->suspend) {
        task->state = TASK_SUSPENDED;
        return;
    }
    statistics.wakeups++;
    kymo_sched_wakeup_masked(task->id, waker(), 0);
    make_ready(task);
}

struct task *task_wake_first(struct queue *queue) {
    struct task *task = most_urgent(queue);
    if (task != NULL)
        wake(task);
    return task;
}

void task_block(struct queue *queue, enum task_state state) {
    struct task *task = running;
    task->state = state;
    put_last(queue, task);
    schedule(KYMO_SWITCH_REASON_WAITS);
}

/* At the end of a call or an interrupt that may have woken somebody. Who is pre-empted goes on
 * before the others of its priority. */
void schedule_if_needed(void) {
    if (running == &idle) {
        if (is_preempted)
            schedule(KYMO_SWITCH_REASON_IDLE);
    } else if (is_preempted) {
        put_first(&ready[running->priority], running);
        schedule(KYMO_SWITCH_REASON_PREEMPTED);
    } else if (is_expired) {
        make_ready(running);
        schedule(KYMO_SWITCH_REASON_EXPIRED);
    }
}

void task_create(struct task *task, const char *name, uint32_t priority, void (*code)(void *),
                 void *argument) {
    uintptr_t *frame = &task->stack[STACK_WORDS - 16];
    uintptr_t saved = interrupts_mask();
    frame[0] = (uintptr_t)task_begin;
    frame[1] = (uintptr_t)code;
    frame[2] = (uintptr_t)argument;
    task->sp = frame;
    task->id = next_id++;
    task->name = name;
    task->priority = priority < 1 ? 1 : priority < PRIORITIES ? priority : PRIORITIES - 1;
    task->suspend = false;
    task->all = all_tasks;
    all_tasks = task;
    kymo_thread_name(task->id, name, KYMO_TO_NUL);
    kymo_thread_create_masked(task->id, 0, running->id, (int16_t)task->priority);
    make_ready(task);
    schedule_if_needed();
    interrupts_restore(saved);
}

_Noreturn void task_end(void) {
    interrupts_mask();
    running->state = TASK_ENDED;
    struct task **at = &all_tasks;
    while (*at != running)
        at = &(*at)->all;
    *at = running->all;
    kymo_thread_exit_masked(running->id, 0, KYMO_THREAD_STATE_RUNNABLE);
    while (joining.first != NULL)
        wake(joining.first);
    schedule(KYMO_SWITCH_REASON_ENDED);
    for (;;) /* Nobody switches back. */
        ;
}

void task_join(struct task *task) {
    uintptr_t saved = interrupts_mask();
    while (task->state != TASK_ENDED)
        task_block(&joining, TASK_BLOCKED);
    interrupts_restore(saved);
}

void task_yield(void) {
    uintptr_t saved = interrupts_mask();
    kymo_thread_yield_masked(running->id);
    make_ready(running);
    schedule(KYMO_SWITCH_REASON_YIELDED);
    interrupts_restore(saved);
}

void task_delay(uint32_t for_ticks) {
    uintptr_t saved = interrupts_mask();
    kymo_thread_delay_masked(running->id, (uint64_t)for_ticks * CLOCK_FREQUENCY / TICKS_A_SECOND);
    /* The tick that is under way does not count. */
    running->wake_at = now + for_ticks + 1;
    task_block(&sleeping, TASK_SLEEPING);
    interrupts_restore(saved);
}

bool task_suspend(struct task *task) {
    uintptr_t saved = interrupts_mask();
    bool can = task->state != TASK_ENDED && task->state != TASK_SUSPENDED && !task->suspend;
    if (can) {
        kymo_thread_suspend_masked(task->id);
        task->suspend = true;
        if (task == running) {
            task->state = TASK_SUSPENDED;
            schedule(KYMO_SWITCH_REASON_SUSPENDED);
        } else if (task->state == TASK_READY) {
            take_out(task);
            task->state = TASK_SUSPENDED;
        }
    }
    interrupts_restore(saved);
    return can;
}

bool task_resume(struct task *task) {
    uintptr_t saved = interrupts_mask();
    bool can = task->suspend;
    if (can) {
        kymo_thread_resume_masked(task->id);
        task->suspend = false;
        if (task->state == TASK_SUSPENDED) {
            make_ready(task);
            schedule_if_needed();
        }
    }
    interrupts_restore(saved);
    return can;
}

void scheduler_tick(void) {
    now++;
    for (struct task *task = sleeping.first, *next; task != NULL; task = next) {
        next = task->next;
        if (task->wake_at <= now)
            wake(task);
    }
    if (running->slice > 0)
        running->slice--;
    is_expired = running->slice == 0 && ready[running->priority].first != NULL;
}

uint64_t ticks(void) {
    uintptr_t saved = interrupts_mask();
    uint64_t read = now;
    interrupts_restore(saved);
    return read;
}

/* Goes on as the idle task. */
_Noreturn void scheduler_start(void (*code)(void *)) {
    static struct task first;
    running = &idle;
    timer_start();
    task_create(&first, "main", PRIORITIES - 1, code, NULL);
    for (;;) {
        interrupts_restore(8);
        __asm__ volatile("wfi");
    }
}
