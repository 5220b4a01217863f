/* Records each event of the vocabulary and its own, reads all channels into the files of a folder,
 * and checks what the calls return. Compiled as C and as C++. */
#include "port.h"
#include "check.h"

#include <stdio.h>
#include <string.h>

KYMO_MEMORY(2, KYMO_REGION_SIZE(2, 32, 1024))
KYMO_EVENT_TABLE(my_events, MY_EVENTS)

uint32_t this_cpu;
int masked;
static uint64_t now = 1000;
static uint64_t frequency;
static int unmasked_clock, unmasked_cpu, dumps, synchronized;
static int stops; /* kymo_stop is at work */

uint64_t kymo_port_clock(void) { return ++now; }
uint64_t kymo_port_frequency(void) { return frequency; }
uint32_t kymo_port_cpu(void) {
    unmasked_cpu += stops && masked == 0;
    return this_cpu;
}
uintptr_t kymo_port_mask(void) { return (uintptr_t)masked++; }
void kymo_port_unmask(uintptr_t saved) { masked = (int)saved; }

static void dump_state(void) {
    dumps++;
    kymo_thread_name(7, "dumped", KYMO_TO_NUL);
}
static void synchronize(void) {
    synchronized++;
    unmasked_clock += masked != 0;
}

/* Tables that kymo_start refuses, one error after the other. */
static int refuses(struct kymo_config config) {
    static const struct {
        struct kymo_event events[2];
        int32_t error;
    } tables[] = {
        {{{20, "a", ""}, {22, "b", ""}}, KYMO_ERANGE},
        {{{30, "a", ""}, {22, "b", ""}}, KYMO_ERANGE},
        {{{2048, "a", ""}, {22, "b", ""}}, KYMO_ERANGE},
        {{{999, "a", ""}, {22, "b", ""}}, KYMO_ERANGE},
        {{{22, "a", ""}, {22, "b", ""}}, KYMO_EEXIST},
        {{{22, "a", ""}, {23, "a", ""}}, KYMO_EEXIST},
        {{{22, "a", ""}, {23, "sched_switch", ""}}, KYMO_EEXIST},
        {{{22, "a", ""}, {23, "kymo_gauge", ""}}, KYMO_EEXIST},
        {{{22, "a", ""}, {23, "group_count", ""}}, KYMO_EEXIST},
        {{{22, "a", ""}, {23, "counted_event", ""}}, KYMO_EEXIST},
        {{{22, "a b", ""}, {23, "c", ""}}, KYMO_EPROTO},
        {{{22, "1a", ""}, {23, "c", ""}}, KYMO_EPROTO},
        {{{22, "", ""}, {23, "c", ""}}, KYMO_EPROTO},
        {{{22, NULL, ""}, {23, "c", ""}}, KYMO_EPROTO},
        {{{22, "a", "u31 x;"}, {23, "c", ""}}, KYMO_EPROTO},
        {{{22, "a", "u32 x y;"}, {23, "c", ""}}, KYMO_EPROTO},
        {{{22, "a", "text x;u32 y;"}, {23, "c", ""}}, KYMO_EPROTO},
        {{{22, "a", "text a;text b;text c;text d;text e;"}, {23, "c", ""}}, KYMO_E2BIG},
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        config.own = tables[i].events;
        config.own_count = 2;
        if (kymo_start(KYMO_TRACE, &config) != -tables[i].error) {
            fprintf(stderr, "table %d: %d\n", (int)i, (int)kymo_start(KYMO_TRACE, &config));
            return 1;
        }
    }
    return 0;
}

static void record_own(void) {
    trace_block_done(0x123456789abcdef0u, -5);
    trace_block_done_masked(1, 2);
    trace_everything(1, 2, 3, 4, -1, -2, -3, -4, 0xf1, 0xf2f2, 0xf3f3f3f3, 0xf4f4f4f4f4f4f4f4,
                     true, "caf\xc3\xa9", KYMO_TO_NUL, NULL, 0);
    trace_everything_masked(1, 2, 3, 4, -1, -2, -3, -4, 0xf1, 0xf2f2, 0xf3f3f3f3,
                            0xf4f4f4f4f4f4f4f4, false, "abcdefgh", 3, "", 1);
    KYMO_TRACE(trace_sensor(42));
    trace_sensor_masked(43);
    trace_watchdog();
    trace_watchdog_masked();
    trace_rare_watchdog();
    trace_rare_watchdog_masked();
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    static uint8_t build_id[20] = {1, 2, 3};
    struct kymo_config config;
    memset(&config, 0, sizeof config);
    config.build_id = build_id;
    config.dump_state = dump_state;

    /* Before the start, calls are out of order, and events are off. */
    uint32_t word[256];
    CHECK(kymo_stop(KYMO_TRACE) == -KYMO_EINVAL && kymo_finish(KYMO_TRACE, NULL) == -KYMO_EINVAL);
    CHECK(kymo_read(KYMO_TRACE, 0, word, sizeof word) == -KYMO_EINVAL);
    CHECK(kymo_buffer_size() == -KYMO_EINVAL && kymo_snapshot(KYMO_TRACE) == -KYMO_EINVAL);
    CHECK(kymo_switch(KYMO_TRACE, 1, false) == -KYMO_EINVAL);
    kymo_sched_enter();
    trace_watchdog();
    CHECK(now == 1000);

    /* What cannot be started; each by its first error. */
    CHECK(kymo_start(KYMO_TRACE, NULL) == -KYMO_EFAULT);
    config.own_count = 1;
    config.flags = 4;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EFAULT);
    config.own_count = 0;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EINVAL);
    config.flags = 0;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EDEADLK); /* two CPUs, and no synchronize */
    config.synchronize = synchronize;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EAGAIN); /* no frequency */
    frequency = 1000000000;
    CHECK(refuses(config) == 0);
    static const uint16_t unknown[] = {1, 999};
    config.events = unknown;
    config.events_count = 2;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EINVAL);
    config.events = NULL;
    config.events_count = 0;
    config.cpus = 3;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EINVAL);
    config.cpus = 0;
    config.packet_size = 1000;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EINVAL);
    config.packet_size = 0;
#ifdef KYMO_NMI
    config.packets = 100000;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EINVAL);
#endif
    config.packets = 131072;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_ENOMEM);
    CHECK(kymo_memory_needed() > 2 * 131072 * 1024u && kymo_memory_needed() < 275000 * 1024u);

    /* The macro's size is enough for what it says, and all of the memory is used without it. */
    config.packets = 32;
    config.names_packets = 8;
    KYMO_OWN(config, my_events);
    CHECK(kymo_start(KYMO_TRACE, &config) == 5);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0 && kymo_finish(KYMO_TRACE, NULL) == -KYMO_EINVAL);
    config.packets = 0;
    config.names_packets = 0;
    CHECK(kymo_start(KYMO_TRACE, &config) == 5 && dumps == 2);
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EINPROGRESS);

    CHECK(kymo_read(KYMO_TRACE, 0, NULL, 4) == -KYMO_EFAULT);
    CHECK(kymo_read(KYMO_TRACE, 0, (char *)word + 1, 8) == -KYMO_EFAULT);
    CHECK(kymo_read(KYMO_TRACE, 5, word, sizeof word) == -KYMO_EINVAL);
    CHECK(kymo_read(KYMO_TRACE, 1, word, 16) == -KYMO_EINVAL);
    char name[16];
    CHECK(kymo_channel_name(3, NULL, 16) == -KYMO_EFAULT);
    CHECK(kymo_channel_name(5, name, 16) == -KYMO_EINVAL);
    CHECK(kymo_channel_name(3, name, 7) == -KYMO_EINVAL);
    CHECK(kymo_channel_name(3, name, 8) == 7 && strcmp(name, "names_1") == 0);
    int32_t least = kymo_buffer_size();
    CHECK(least > 1024 && least < (int32_t)(4096 * sizeof(uint32_t)));

    for (this_cpu = 0; this_cpu < 2; this_cpu++) {
#include "calls.h"
        record_own();
    }
    /* A CPU that the memory has no blocks for: counted. */
    this_cpu = 2;
    kymo_sched_enter();
    this_cpu = 0;
    CHECK(drain(KYMO_TRACE, argv[1], 5) == 0);

    CHECK(kymo_switch(KYMO_TRACE, 999, false) == -KYMO_EINVAL);
    CHECK(kymo_switch(KYMO_TRACE, KYMO_ID_SCHED_ENTER, false) == 0);
    CHECK(kymo_switch(KYMO_TRACE, 1001, false) == 0);
    uint64_t before = now;
    kymo_sched_enter();
    trace_rare_watchdog();
    CHECK(now == before);
    CHECK(kymo_switch(KYMO_TRACE, KYMO_ID_SCHED_ENTER, true) == 0);
    kymo_sched_enter();
    CHECK(now == before + 1);
    CHECK(kymo_snapshot(KYMO_TRACE) == 0 && dumps == 3);
    stops = 1;
    synchronized = 0;
    CHECK(kymo_stop(KYMO_TRACE) == 5 && kymo_stop(KYMO_TRACE) == -KYMO_EINVAL);
    stops = 0;
    CHECK(synchronized > 0);
    CHECK(kymo_snapshot(KYMO_TRACE) == -KYMO_EINVAL);
    CHECK(kymo_switch(KYMO_TRACE, 1, true) == -KYMO_EINVAL);
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EINPROGRESS);
    CHECK(drain(KYMO_TRACE, argv[1], 5) == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    CHECK(masked == 0 && unmasked_clock == 0 && unmasked_cpu == 0);
    return 0;
}
