/* Kymo's functions for Zephyr's user-defined tracing: they replace Zephyr's weak ones. */
#include <kymo.h>
#include <tracing_user.h>
#include <zephyr/kernel.h>

/* The number of the interrupt that runs. */
kymo_irq kymo_zephyr_irq(void);
/* Records the names and states of all threads. */
void kymo_zephyr_dump(void);

/* Zephyr calls the hook for a thread that is switched out also where no other one is switched in:
 * so a switch is recorded at its end, from the thread that was the last one there. */
static const struct k_thread *running;

static kymo_tid tid(const struct k_thread *of) {
    return of->base.prio == K_IDLE_PRIO ? KYMO_TID_IDLE : (kymo_tid)(uintptr_t)of;
}

/* Before _THREAD_SLEEPING came, a thread that slept was suspended, with a timeout. */
#ifdef _THREAD_SLEEPING
#define KYMO_STOPPED (_THREAD_SUSPENDED | _THREAD_SLEEPING)
#else
#define KYMO_STOPPED (_THREAD_SUSPENDED | _THREAD_PRESTART)
#endif
static enum kymo_thread_state state(const struct k_thread *of) {
    if (of->base.thread_state & _THREAD_DEAD)
        return KYMO_THREAD_STATE_ENDED;
    if (of->base.thread_state & _THREAD_PENDING)
        return KYMO_THREAD_STATE_BLOCKED;
    if (!(of->base.thread_state & KYMO_STOPPED))
        return KYMO_THREAD_STATE_RUNNABLE;
    return sys_dnode_is_linked(&of->base.timeout.node) ? KYMO_THREAD_STATE_SLEEPING
                                                       : KYMO_THREAD_STATE_SUSPENDED;
}

void sys_trace_thread_switched_in_user(void) {
    static const enum kymo_switch_reason reasons[] = {
        KYMO_SWITCH_REASON_EXPIRED, KYMO_SWITCH_REASON_WAITS, KYMO_SWITCH_REASON_WAITS,
        KYMO_SWITCH_REASON_SUSPENDED, KYMO_SWITCH_REASON_ENDED};
    const struct k_thread *const from = running, *const to = k_sched_current_thread_query();
    running = to;
    if (from == NULL || from == to)
        return;
    enum kymo_switch_reason reason = reasons[state(from)];
    if (tid(from) == KYMO_TID_IDLE)
        reason = KYMO_SWITCH_REASON_IDLE;
    else if (reason == KYMO_SWITCH_REASON_EXPIRED && to->base.prio < from->base.prio)
        reason = KYMO_SWITCH_REASON_PREEMPTED;
    kymo_sched_switch(tid(from), tid(to), state(from), reason, to->base.prio);
}

void sys_trace_thread_sched_ready_user(struct k_thread *of) {
    kymo_sched_wakeup(tid(of), KYMO_TID_UNKNOWN, 0);
}

void sys_trace_thread_name_set_user(struct k_thread *of) {
    kymo_thread_name(tid(of), of->name, sizeof of->name);
}

void sys_trace_thread_create_user(struct k_thread *of) {
    if (of->name[0] != '\0')
        sys_trace_thread_name_set_user(of);
    kymo_thread_create(tid(of), 0, running == NULL ? KYMO_TID_IDLE : tid(running), of->base.prio);
}

/* The tracing subsystem's hook for the end of a thread is never called: this is the kernel's. */
void thread_abort_hook(struct k_thread *of) {
    kymo_thread_exit(tid(of), 0, KYMO_THREAD_STATE_RUNNABLE);
}

void sys_trace_thread_suspend_user(struct k_thread *of) { kymo_thread_suspend(tid(of)); }
void sys_trace_thread_resume_user(struct k_thread *of) { kymo_thread_resume(tid(of)); }

/* The numbers of the interrupts that run: at the end of one, the processor may name another. */
static volatile uint32_t depth;
static volatile kymo_irq irqs[16];

void sys_trace_isr_enter_user(void) {
    const uint32_t at = depth++ % ARRAY_SIZE(irqs);
    irqs[at] = kymo_zephyr_irq();
    kymo_irq_handler_entry(irqs[at]);
}

void sys_trace_isr_exit_user(void) {
    kymo_irq_handler_exit(irqs[(depth - 1) % ARRAY_SIZE(irqs)]);
    depth--;
}

static void dump_thread(const struct k_thread *of, void *unused) {
    ARG_UNUSED(unused);
    kymo_thread_state(tid(of), 0, of->base.prio, state(of), 0, of->name, sizeof of->name);
}

void kymo_zephyr_dump(void) { k_thread_foreach(dump_thread, NULL); }
