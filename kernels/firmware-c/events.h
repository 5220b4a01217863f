/* What the kernel records: the vocabulary of Kymo, and events of its own. */
#ifndef EVENTS_H
#define EVENTS_H

#include "kymo.h"
#include "rtos.h"

#define SAMPLE_TAKEN(FIELD) FIELD(u32, sequence) FIELD(i32, value)
#define OVERWRITTEN(FIELD) FIELD(u64, count)
#define OWN_EVENTS(EVENT, BARE)                                                                    \
    EVENT(21, sample_taken, SAMPLE_TAKEN) BARE(22, alarm) EVENT(1000, overwritten, OVERWRITTEN)
KYMO_EVENTS(OWN_EVENTS)

/* What the trace calls the state of a task that does not run. */
static inline enum kymo_thread_state trace_state(const struct task *task) {
    static const enum kymo_thread_state states[] = {
        [TASK_READY] = KYMO_THREAD_STATE_RUNNABLE,
        [TASK_BLOCKED] = KYMO_THREAD_STATE_BLOCKED,
        [TASK_SLEEPING] = KYMO_THREAD_STATE_SLEEPING,
        [TASK_SUSPENDED] = KYMO_THREAD_STATE_SUSPENDED,
        [TASK_ENDED] = KYMO_THREAD_STATE_ENDED,
    };
    return states[task->state];
}

/* Who wakes a task: an interrupt is nobody. */
static inline kymo_tid waker(void) { return in_interrupt ? KYMO_TID_IDLE : running->id; }

#endif
