/* With KYMO_OFF: nothing is evaluated, and nothing is left. Without it, the same calls compile. */
#include "port.h"

#define MY_COUNTERS(COUNTER, GAUGE, HISTOGRAM)                                    \
    COUNTER(sent, packets) GAUGE(used, buffers) HISTOGRAM(size, bytes)
KYMO_COUNTERS(MY_COUNTERS)

#ifdef KYMO_OFF
KYMO_MEMORY_COUNTING(1, 16384)
KYMO_COUNTER_TABLE(my_counters, MY_COUNTERS)
KYMO_EVENT_TABLE(my_events, MY_EVENTS)
#endif

int side_effects(void);
int side_effects(void) {
    int count = 0, more = 0;
    kymo_sched_switch((kymo_tid)count++, 0, KYMO_THREAD_STATE_BLOCKED, KYMO_SWITCH_REASON_WAITS,
                      (int16_t)more++);
    kymo_sched_switch_masked((kymo_tid)count++, 0, KYMO_THREAD_STATE_BLOCKED,
                             KYMO_SWITCH_REASON_WAITS, 0);
    kymo_thread_name((kymo_tid)count++, "name", KYMO_TO_NUL);
    kymo_sched_enter();
    KYMO_TRACE(trace_block_done((uint64_t)count++, 0));
    trace_watchdog();
    KYMO_TRACE(count_sent((size_t)count++));
    KYMO_TRACE(count_used_masked(count++));
    KYMO_TRACE(observe_size((uint64_t)count++));
    kymo_tick();
#ifdef KYMO_OFF
    struct kymo_config config = {0};
    KYMO_OWN(config, my_events);
    config.counters = &my_counters;
    if (kymo_start(KYMO_TRACE, &config) != -KYMO_EOPNOTSUPP ||
        kymo_stop(KYMO_TRACE) != -KYMO_EOPNOTSUPP)
        count++;
    if (kymo_read(KYMO_TRACE, 0, &config, 4) != -KYMO_EOPNOTSUPP || kymo_memory_needed() != 0)
        count++;
    if (kymo_is_recording() || kymo_flags() != -KYMO_EOPNOTSUPP)
        count++;
#endif
    return count + more;
}
