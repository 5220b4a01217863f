/* A kernel that only calls the library, to see that it can be linked: cargo xtask test kernels. */
#include "kymo.h"

#define SENSOR(FIELD) FIELD(u32, channel) FIELD(text, name)
#define MY_EVENTS(EVENT, BARE) EVENT(21, sensor, SENSOR) BARE(1000, watchdog)
KYMO_EVENTS(MY_EVENTS)
KYMO_EVENT_TABLE(my_events, MY_EVENTS)
KYMO_RTT(rtt, 8192)
KYMO_MEMORY(4, KYMO_REGION_SIZE(4, 16, 1024))
#if defined(__riscv) && __riscv_xlen == 64
KYMO_COUNTING_READY(counting, 4)
#else
static const struct kymo_pmu pmu;
KYMO_COUNTING(counting, 4, &pmu)
#endif

uint64_t kymo_port_clock(void) { return 0; }
uint64_t kymo_port_frequency(void) { return 1000000; }
uint32_t kymo_port_cpu(void) { return 0; }
uintptr_t kymo_port_mask(void) { return 0; }
void kymo_port_unmask(uintptr_t saved) { (void)saved; }

static void nothing(void) {}
static int32_t put(void *context, const char *text, size_t size) {
    (void)context, (void)text, (void)size;
    return 0;
}

void start(void);
void start(void) {
    static struct kymo_config config = {.dump_state = nothing, .synchronize = nothing};
    static struct kymo_name_epoch named;
    static uint32_t buffer[2048];
    struct kymo_counts counts;
    struct kymo_record record;
    static struct kymo_sender sender = {.rtt = &rtt, .buffer = buffer, .buffer_size = sizeof buffer};
    char name[16];
    KYMO_OWN(config, my_events);
    config.counting = &counting;
    kymo_counting_tick();
    kymo_happened(KYMO_SOFTWARE_CONTEXT_SWITCHES, true);
    kymo_start(KYMO_TRACE, &config);
    kymo_start_as("kymo=rolling", &config, NULL);
    kymo_sched_switch(1, 2, KYMO_THREAD_STATE_RUNNABLE, KYMO_SWITCH_REASON_EXPIRED, 0);
    kymo_sched_switch_masked(1, 2, KYMO_THREAD_STATE_RUNNABLE, KYMO_SWITCH_REASON_EXPIRED, 0);
    kymo_thread_name(1, "one", KYMO_TO_NUL);
    kymo_thread_named(&named, 1, "one", KYMO_TO_NUL);
    trace_sensor(1, "one", KYMO_TO_NUL);
    trace_watchdog();
    kymo_snapshot(KYMO_TRACE);
    kymo_switch(KYMO_TRACE, KYMO_ID_SCHED_SWITCH, false);
    kymo_channel_name(0, name, sizeof name);
    kymo_read(KYMO_TRACE, 0, buffer, sizeof buffer);
    kymo_counts(&counts);
    kymo_is_recording();
    kymo_flags();
    kymo_send_open(&sender);
    kymo_send(KYMO_TRACE, &sender);
    kymo_send_finish(KYMO_TRACE, &sender, NULL);
    kymo_dump(put, NULL, 8);
    kymo_dump_per_cpu(put, NULL, 8);
    kymo_dump_on_panic(put, NULL, 8);
    kymo_get(0, &record, name, sizeof name);
    kymo_clear();
    kymo_stop(KYMO_TRACE);
    kymo_finish(KYMO_TRACE, NULL);
    for (;;)
        ;
}
