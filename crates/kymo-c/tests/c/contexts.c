/* Events that record who called them, and what their CPU has counted. The functions tell where they
 * begin, so that the callers can be named. */
#include <string.h>
#include "check.h"

#define NUMBER(FIELD) FIELD(u32, number)
#define PLACE(FIELD) FIELD(x64, begin)
#define LARGE(FIELD) FIELD(u64, a) FIELD(u64, b) FIELD(u64, c)
#define EVENTS(EVENT, BARE)                                                                        \
    EVENT(21, done, NUMBER) EVENT(22, large, LARGE) EVENT(29, function, PLACE) BARE(1000, rare)
KYMO_EVENTS(EVENTS)
KYMO_EVENT_TABLE(events, EVENTS)

KYMO_MEMORY(2, KYMO_REGION_SIZE(2, 32, 2048) + 2 * 8 * 2048)

static uint32_t this_cpu;
static uint64_t now;
static int masks, mistakes; /* what the kernel calls with interrupts unmasked, and should not */
static uintptr_t stack_end;
static bool traps; /* reading a counter traps, and the handler records */

/* Two counters on each CPU, which count cycles and instructions. */
static struct {
    uint64_t value[2];
    uint64_t counts;
} counters[2];

static uint64_t counters_of(const struct kymo_counted *event) {
    return event->kind != KYMO_COUNTED_HARDWARE ? 0 : (uint64_t)1 << event->number;
}
static uint32_t width(uint32_t counter) { return (void)counter, 64; }
static bool program(uint32_t counter, const struct kymo_counted *event, uint64_t value) {
    counters[this_cpu].value[counter] = value;
    return event->number == counter;
}
static uint64_t read_counter(uint32_t counter) {
    mistakes += masks == 0;
    if (traps)
        trace_large_masked(counter, 0, 0);
    return counters[this_cpu].value[counter];
}
static void start(uint64_t which) { counters[this_cpu].counts |= which; }
static void stop(uint64_t which) { counters[this_cpu].counts &= ~which; }
static void work(void) {
    now += 1000;
    counters[this_cpu].value[0] += 100 * (counters[this_cpu].counts & 1);
    counters[this_cpu].value[1] += 10 * (counters[this_cpu].counts >> 1);
}
static const struct kymo_pmu pmu = {2, counters_of, width, program, read_counter, start, stop};
KYMO_COUNTING(counting, 2, &pmu)

#ifdef __cplusplus
extern "C" {
#endif
extern const char __executable_start[], etext[];
uint64_t kymo_port_clock(void) { return ++now; }
uint64_t kymo_port_frequency(void) { return 1000000000; }
uint32_t kymo_port_cpu(void) { return this_cpu; }
uintptr_t kymo_port_mask(void) { return (uintptr_t)++masks; }
void kymo_port_unmask(uintptr_t saved) { (void)saved, masks--; }
static void synchronize(void) {}

static void here(struct kymo_sample *sample) {
    mistakes += masks == 0 || sample->fp != 0 || sample->stacks[1].begin != 0;
    sample->tid = 7 + this_cpu;
    sample->link = 1; /* That is no caller. */
    sample->text[0] = (uintptr_t)__executable_start;
    sample->text[1] = (uintptr_t)etext;
    sample->stacks[0].begin = (uintptr_t)__builtin_frame_address(0);
    sample->stacks[0].end = stack_end;
}
#ifdef __cplusplus
}
#endif
KYMO_SAMPLER_OF_EVENTS(sampler, 2, here)
KYMO_SAMPLER(without_events, 2)

/* Each ends with its event: the compiler may make a jump of a last call. */
#define FUNCTION __attribute__((noinline, unused)) static void
FUNCTION is_done(uint32_t number) { trace_done(number); }
FUNCTION is_done_masked(uint32_t number) {
    masks++;
    trace_done_masked(number);
    masks--;
}
FUNCTION is_rare(uint32_t number) { (void)number, trace_rare(); }
FUNCTION is_large(uint32_t number) { trace_large(number, 2, 3); }
FUNCTION yields(uint32_t number) { kymo_thread_yield(number); }
FUNCTION wakes(uint32_t number) { kymo_sched_wakeup_new(number, 0, 0); }

FUNCTION outer(void (*inner)(uint32_t), uint32_t number) {
    inner(number);
    __asm__ volatile("");
}

static struct kymo_config config;

static void tick(uint32_t cpu) {
    const uint32_t before = this_cpu;
    this_cpu = cpu;
    masks++;
    kymo_counting_tick();
    masks--;
    this_cpu = before;
}

static int refused(void) {
    CHECK(kymo_switch_stacks(KYMO_TRACE, 21, true) == -KYMO_EINVAL); /* no session */
    /* No packets for callers; no sampler that events have; no such mode, and no such event. */
    CHECK(kymo_start(KYMO_TRACE, &config) == 5);
    CHECK(kymo_switch_stacks(KYMO_TRACE, 21, true) == -KYMO_EINVAL);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    config.samples_packets = 8;
    config.sampler = &without_events;
    CHECK(kymo_start(KYMO_TRACE, &config) == 7);
    CHECK(kymo_switch_stacks(KYMO_TRACE, 21, true) == -KYMO_EINVAL);
    CHECK(kymo_start(KYMO_COUNT, &config) == 7);
    CHECK(kymo_switch_counts(KYMO_COUNT, 21, true) == -KYMO_EINVAL);
    tick(1); /* It will not have noticed the end when the next session counts. */
    CHECK(kymo_finish(KYMO_COUNT, NULL) == 0 && kymo_finish(KYMO_TRACE, NULL) == 0);
    CHECK(kymo_start_as("kymo=stacks=done", &config, NULL) == -KYMO_EOPNOTSUPP);
    CHECK(kymo_start_as("kymo=counters_on=done", &config, NULL) == -KYMO_EOPNOTSUPP);
    config.sampler = &sampler;
    CHECK(kymo_start(KYMO_TRACE, &config) == 7);
    CHECK(kymo_switch_stacks(3, 21, true) == -KYMO_ENOSYS);
    CHECK(kymo_switch_stacks(KYMO_TRACE, 23, true) == -KYMO_EINVAL);
    CHECK(kymo_switch_stacks(KYMO_TRACE, KYMO_ID_THREAD_NAME, true) == -KYMO_EINVAL);
    CHECK(kymo_switch_counts(KYMO_TRACE, 21, true) == -KYMO_EINVAL);
    CHECK(kymo_switch_counts(KYMO_COUNT, 21, true) == -KYMO_EINVAL); /* It does not run. */
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    return 0;
}

static inline int switched(uint32_t id) {
    CHECK(kymo_switch_stacks(KYMO_TRACE, id, true) == 0);
    return 0;
}

#ifndef BY_WORD
/* What the events of the trace are. */
__attribute__((noinline)) static int record(void) {
    stack_end = (uintptr_t)__builtin_frame_address(0);
    CHECK(kymo_start(KYMO_TRACE, &config) == 7);
    trace_function((uintptr_t)is_done);
    trace_function((uintptr_t)is_done_masked);
    trace_function((uintptr_t)is_rare);
    trace_function((uintptr_t)is_large);
    trace_function((uintptr_t)yields);
    trace_function((uintptr_t)wakes);
    trace_function((uintptr_t)outer);
    trace_function((uintptr_t)record);
    outer(is_done, 1);
    CHECK(switched(21) == 0 && switched(22) == 0 && switched(1000) == 0);
    CHECK(switched(KYMO_ID_THREAD_YIELD) == 0 && switched(KYMO_ID_SCHED_WAKEUP_NEW) == 0);
    outer(is_done, 2);
    outer(is_done_masked, 3);
    outer(is_rare, 0);
    outer(is_large, 4);
    outer(yields, 5);
    outer(wakes, 6);
    this_cpu = 1;
    outer(is_done, 7);
    this_cpu = 0;
    CHECK(kymo_switch_stacks(KYMO_TRACE, 21, false) == 0);
    outer(is_done, 8);
    CHECK(kymo_start(KYMO_COUNT, &config) == 7);
    work();
    CHECK(kymo_switch_counts(KYMO_COUNT, 21, true) == 0);
    outer(is_done, 9);
    work();
    CHECK(switched(21) == 0);
    outer(is_done_masked, 10);
    /* A CPU that has not ticked knows no groups. */
    this_cpu = 1;
    outer(is_done_masked, 11);
    tick(1);
    work();
    outer(is_done_masked, 12);
    this_cpu = 0;
    CHECK(kymo_switch_stacks(KYMO_TRACE, 22, false) == 0);
    traps = true;
    outer(is_done, 13);
    traps = false;
    CHECK(kymo_switch_counts(KYMO_COUNT, 21, false) == 0);
    outer(is_done, 14);
    CHECK(kymo_switch_counts(KYMO_COUNT, 21, true) == 0);
    CHECK(kymo_stop(KYMO_COUNT) == 7);
    outer(is_done, 15);
    CHECK(kymo_stop(KYMO_TRACE) == 7);
    outer(is_done, 16);
    return 0;
}

#else
/* The same by a word, with short chains. */
__attribute__((noinline)) static int record(void) {
    stack_end = (uintptr_t)__builtin_frame_address(0);
    const char *word = "kymo=stacks=do*:rare,counters=cycles,counters_on=done,depth=" BY_WORD;
    CHECK(kymo_start_as(word, &config, NULL) == 7);
    trace_function((uintptr_t)is_done);
    trace_function((uintptr_t)is_rare);
    trace_function((uintptr_t)outer);
    trace_function((uintptr_t)record);
    work();
    outer(is_done, 1);
    outer(is_rare, 0);
    outer(is_large, 2);
    CHECK(kymo_stop(KYMO_COUNT) == 7 && kymo_stop(KYMO_TRACE) == 7);
    return 0;
}
#endif

int main(int argc, char **argv) {
    CHECK(argc == 2);
    memset(&config, 0, sizeof config);
    config.synchronize = synchronize;
    config.counting = &counting;
    KYMO_OWN(config, events);
    CHECK(refused() == 0);
#ifdef BY_WORD
    config.samples_packets = 0;
    config.packet_size = 2048;
#endif
    CHECK(record() == 0);
    CHECK(masks == 0 && mistakes == 0);
    CHECK(drain(KYMO_TRACE, argv[1], 7) == 0);
    return 0;
}
