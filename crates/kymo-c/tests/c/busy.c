/* Calls that come while kymo_start is at work: each is refused, and the session goes on. Those that
 * come while kymo_snapshot is at work do what they do at any other time. */
#include <stdio.h>
#include "one_cpu.h"

KYMO_MEMORY(1, 1 << 20)
KYMO_SAMPLER(sampler, 1)

static int dumps, wrong;

static void expect(const char *call, int answer, int expected) {
    if (answer == expected)
        return;
    wrong++;
    printf("%s, in dump %d: %d, expected %d\n", call, dumps, answer, expected);
}

static void dump_state(void) {
    struct kymo_config config = {0};
    struct kymo_counts counts;
    uint32_t word;
    if (++dumps == 2) {
        expect("kymo_read", kymo_read(KYMO_TRACE, 0, &word, sizeof word), 4);
        expect("kymo_counts", kymo_counts(&counts), 0);
        expect("kymo_start", kymo_start(KYMO_TRACE, &config), -KYMO_EINPROGRESS);
        return;
    }
    config.packet_size = 4096;
    for (int times = 0; times < 3; times++) {
        expect("kymo_stop", kymo_stop(KYMO_TRACE), -KYMO_EINVAL);
        expect("kymo_finish", kymo_finish(KYMO_TRACE, NULL), -KYMO_EINVAL);
        expect("kymo_start", kymo_start(KYMO_TRACE, &config), -KYMO_EINPROGRESS);
        config.sampler = &sampler;
        config.sample_period = 100;
        expect("kymo_start, samples", kymo_start(KYMO_SAMPLE, &config), -KYMO_EBUSY);
        expect("kymo_snapshot", kymo_snapshot(KYMO_TRACE), -KYMO_EINVAL);
        expect("kymo_read", kymo_read(KYMO_TRACE, 0, &word, sizeof word), -KYMO_EINVAL);
        expect("kymo_counts", kymo_counts(&counts), -KYMO_EINVAL);
        expect("kymo_switch", kymo_switch(KYMO_TRACE, KYMO_ID_SCHED_SWITCH, false), -KYMO_EINVAL);
    }
}

int main(void) {
    struct kymo_config config = {0};
    struct kymo_counts counts = {0};
    config.dump_state = dump_state;
    expect("kymo_start", kymo_start(KYMO_TRACE, &config), 3);
    kymo_thread_yield(1);
    expect("kymo_snapshot", kymo_snapshot(KYMO_TRACE), 0);
    kymo_thread_yield(2);
    expect("kymo_counts", kymo_counts(&counts), 0);
    expect("events", (int)counts.retained, 2);
    expect("kymo_stop", kymo_stop(KYMO_TRACE), 3);
    expect("kymo_finish", kymo_finish(KYMO_TRACE, NULL), 0);
    return wrong || dumps != 2;
}
