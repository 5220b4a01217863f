/* How much stack the library's calls take: what lies below the stack pointer is painted, and what is
 * changed afterwards was used. The function dump_state records a name and no more. */
#include "app.h"
#include "../events.h"
#include "../rtos.h"

#define PAINT 0xa5a5a5a5u

KYMO_EVENT_TABLE(events, OWN_EVENTS)
KYMO_RTT(rtt, 8192)

/* Counters that count nothing. */
static uint64_t counters(const struct kymo_counted *event) { return (void)event, 3; }
static uint32_t width(uint32_t counter) { return (void)counter, 64; }
static bool program(uint32_t counter, const struct kymo_counted *event, uint64_t value) {
    return (void)counter, (void)event, (void)value, true;
}
static uint64_t read_counter(uint32_t counter) { return (void)counter, 0; }
static void set(uint64_t which) { (void)which; }
static const struct kymo_pmu pmu = {2, counters, width, program, read_counter, set, set};
KYMO_COUNTING(counting, 1, &pmu)

static void dump_state(void) { kymo_thread_name(1, "one", KYMO_TO_NUL); }
static struct kymo_config config = {.flags = KYMO_ROLLING, .dump_state = dump_state};
static uint32_t buffer[512];
static struct kymo_sender sender = {.rtt = &rtt, .buffer = buffer, .buffer_size = sizeof buffer};
static uint32_t channel;

static int32_t put(void *context, const char *text, size_t size) {
    (void)context, (void)text, (void)size;
    return 0;
}

static int32_t event(void) { return trace_sample_taken(1, 2), 0; }
static int32_t name(void) { return kymo_thread_name(1, "one", KYMO_TO_NUL), 0; }
/* In contexts.c, which is compiled for events with contexts. */
extern const struct kymo_sampler *const sampler_of_events;
int32_t event_with_contexts(void);
int32_t switch_contexts_on(void);

static int32_t start(void) { return kymo_start(KYMO_TRACE, &config); }
static int32_t start_count(void) { return kymo_start(KYMO_COUNT, &config); }
static int32_t tick(void) { return kymo_counting_tick(), 0; }
static int32_t stop_count(void) { return kymo_stop(KYMO_COUNT); }
static int32_t read(void) { return kymo_read(KYMO_TRACE, channel, buffer, sizeof buffer); }
static int32_t stop(void) { return kymo_stop(KYMO_TRACE); }
static int32_t finish(void) { return kymo_finish(KYMO_TRACE, NULL); }
static int32_t dump(void) { return kymo_dump(put, NULL, 100); }
static int32_t open(void) { return kymo_send_open(&sender); }
static int32_t send(void) { return kymo_send(KYMO_TRACE, &sender); }

/* Bytes that a call takes, with interrupts masked. */
static __attribute__((noinline)) uint32_t used(int32_t (*call)(void), const char *name) {
    uintptr_t saved = interrupts_mask();
    volatile uintptr_t *bottom = running->stack, *top, *at;
    __asm__ volatile("mv %0, sp" : "=r"(top));
    for (at = bottom; at < top; at++)
        *at = PAINT;
    const int32_t result = call();
    for (at = bottom; at < top && *at == PAINT; at++)
        ;
    interrupts_restore(saved);
    if (result < 0 || at == bottom) {
        print("%s failed: error %u\n", name, (unsigned)-result);
        machine_exit(1);
    }
    return (uint32_t)(top - at) * (uint32_t)sizeof *at;
}

/* A CPU takes up the groups where it is noticed that counting has begun. */
static uint32_t first_tick;
static void notice(void) {
    const uint32_t bytes = used(tick, "tick");
    first_tick = bytes > first_tick ? bytes : first_tick;
}

static void show(const char *name, uint32_t bytes) {
    print("stack_%s = %u\n", name, (unsigned)bytes);
}

static void record(void) {
    kymo_lock_name(1, KYMO_LOCK_KIND_MUTEX, "one", KYMO_TO_NUL);
    for (uint32_t i = 0; i < 40; i++) {
        trace_sample_taken(i, 1);
        kymo_lock_acquired(1, KYMO_LOCK_KIND_MUTEX, true);
    }
}

void app(void) {
    uint32_t most = 0;
    kymo_finish(KYMO_TRACE, NULL); /* what main.c has started */
    KYMO_OWN(config, events);
    show("start", used(start, "start"));
    show("event", used(event, "event"));
    show("name", used(name, "name"));
    record();
    show("dump", used(dump, "dump"));
    /* Of the metadata, the names, and the events, full packets and one that is being filled. */
    for (channel = 0; channel < 3; channel++) {
        int32_t rest = 20;
        do {
            const uint32_t bytes = used(read, "read");
            most = bytes > most ? bytes : most;
        } while (rest-- > 0);
    }
    show("read", most);
    show("stop", used(stop, "stop"));
    show("finish", used(finish, "finish"));
    used(start, "start");
    record();
    used(open, "open");
    show("send", used(send, "send"));
    finish();
    /* Groups that take turns, and are recorded at every tick. */
    config.counting = &counting;
    config.counting_groups = "cycles+instructions++branches+branch-misses";
    config.counting_ns = 1;
    config.sampler = sampler_of_events;
    config.samples_packets = 4;
    used(start, "start");
    show("start_count", used(start_count, "start"));
    const uint32_t tick_bytes = used(tick, "tick");
    /* With callers and counts; packets get full. */
    if (switch_contexts_on() < 0) {
        print("events have no callers or counts\n");
        machine_exit(1);
    }
    uint32_t context = 0;
    for (uint32_t i = 0; i < 200; i++) {
        const uint32_t bytes = used(event_with_contexts, "event");
        context = bytes > context ? bytes : context;
    }
    show("context", context);
    show("stop_count", used(stop_count, "stop"));
    kymo_finish(KYMO_COUNT, NULL);
    finish();
    config.counting_notice = notice;
    used(start, "start");
    if (start_count() < 0 || stop_count() < 0 || first_tick == 0) {
        print("counting is not noticed\n");
        machine_exit(1);
    }
    finish();
    show("counting_tick", tick_bytes > first_tick ? tick_bytes : first_tick);
}
