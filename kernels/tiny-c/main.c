/* The smallest kernel in C that carries Kymo: RV32 in M-mode on QEMU virt, one CPU, two threads
 * that are only numbers. It records what a scheduler would, and leaves the trace in its memory.
 *
 * The functions probe_* are called for their cost: tests/e2e/tests/clib.rs counts their
 * instructions. */

/* mcycle, read in two instructions: a carry between the halves gives a time that is 2^32 ticks too
 * late, which the library finds. */
static inline unsigned long long quick_cycles(void) {
    unsigned low, high;
    __asm__ volatile("csrr %0, mcycle\n\tcsrr %1, mcycleh" : "=r"(low), "=r"(high));
    return (unsigned long long)high << 32 | low;
}
#define KYMO_CLOCK() quick_cycles()
#define KYMO_CPU() 0
#include "kymo.h"

#define SENSOR(FIELD) FIELD(u32, channel) FIELD(i32, value)
#define MY_EVENTS(EVENT, BARE) EVENT(21, sensor, SENSOR) BARE(22, watchdog)
KYMO_EVENTS(MY_EVENTS)
KYMO_EVENT_TABLE(my_events, MY_EVENTS)

#define MY_COUNTERS(COUNTER, GAUGE, HISTOGRAM) COUNTER(turns, turns) HISTOGRAM(values, units)
KYMO_COUNTERS(MY_COUNTERS)

KYMO_MEMORY_COUNTING(1, KYMO_REGION_SIZE(1, 64, 1024))

uint64_t kymo_port_clock(void) {
    uint32_t low, high, again;
    do {
        __asm__ volatile("csrr %0, mcycleh\n\tcsrr %1, mcycle\n\tcsrr %2, mcycleh"
                         : "=r"(high), "=r"(low), "=r"(again));
    } while (high != again);
    return (uint64_t)high << 32 | low;
}
uint64_t kymo_port_frequency(void) { return 1000000000; }
uint32_t kymo_port_cpu(void) { return 0; }
uintptr_t kymo_port_mask(void) {
    uintptr_t saved;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(saved) : : "memory");
    return saved;
}
void kymo_port_unmask(uintptr_t saved) {
    __asm__ volatile("csrw mstatus, %0" : : "r"(saved) : "memory");
}

static void dump_state(void) {
    kymo_thread_name(1, "producer", KYMO_TO_NUL);
    kymo_thread_name(2, "consumer", KYMO_TO_NUL);
}

__attribute__((noinline)) void probe_switch(kymo_tid prev, kymo_tid next) {
    kymo_sched_switch(prev, next, KYMO_THREAD_STATE_RUNNABLE, KYMO_SWITCH_REASON_EXPIRED, 0);
}
__attribute__((noinline)) void probe_switch_masked(kymo_tid prev, kymo_tid next) {
    kymo_sched_switch_masked(prev, next, KYMO_THREAD_STATE_RUNNABLE, KYMO_SWITCH_REASON_EXPIRED,
                             0);
}
__attribute__((noinline)) void probe_sensor_masked(uint32_t channel, int32_t value) {
    trace_sensor_masked(channel, value);
}
__attribute__((noinline)) void probe_count(void) { count_turns(1); }
__attribute__((noinline)) void probe_count_masked(void) { count_turns_masked(1); }
__attribute__((noinline)) void probe_observe_masked(uint32_t value) { observe_values_masked(value); }

int main(void) {
    static uint32_t buffer[2048];
    struct kymo_config config = {
        .flags = KYMO_ROLLING,
        .own = my_events,
        .own_count = sizeof my_events / sizeof my_events[0],
        .dump_state = dump_state,
    };
    if (kymo_start(KYMO_TRACE, &config) != 3)
        return 1;
    for (uint32_t turn = 0; turn < 1000; turn++) {
        kymo_tid next = 1 + turn % 2;
        uintptr_t saved = kymo_port_mask();
        probe_switch_masked(3 - next, next);
        kymo_port_unmask(saved);
        probe_sensor_masked(turn % 4, -(int32_t)turn);
        if (turn % 100 == 0) {
            probe_switch(next, next);
            trace_watchdog();
        }
    }
    /* The metadata can be read, and a packet: the rest stays in the memory. */
    if (kymo_read(KYMO_TRACE, 0, buffer, sizeof buffer) <= 0)
        return 2;
    if (kymo_read(KYMO_TRACE, 2, buffer, sizeof buffer) <= 0)
        return 3;
    if (kymo_stop(KYMO_TRACE) != 3)
        return 4;
    for (uint32_t turn = 0; turn < 100; turn++) {
        probe_switch(1, 2);
        probe_switch_masked(1, 2);
        probe_sensor_masked(1, 2);
        probe_count();
        probe_count_masked();
        probe_observe_masked(turn);
    }
    return 0;
}
