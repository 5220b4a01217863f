/* Counts of two CPUs, whose counters are this program's: two groups for two counters take turns. What
 * cannot be counted, and what is no driver, is refused. */
#include <string.h>
#include "check.h"

KYMO_MEMORY(2, KYMO_REGION_SIZE(2, 16, 1024))

static uint32_t this_cpu;
static uint64_t now, frequency;
static int masks, notices, mistakes; /* calls of the driver's with interrupts unmasked, and the like */

/* Two counters of 16 bits on each CPU, which count cycles, instructions and event 7 of the manual. */
enum { COUNTERS = 2, ENDS = 0x10000 };
static struct {
    struct kymo_counted event;
    uint64_t value;
    bool counts;
} counters[2][COUNTERS];

static uint64_t counters_of(const struct kymo_counted *event) {
    mistakes += masks == 0;
    if (event->kind == KYMO_COUNTED_CACHE)
        return event->number == (KYMO_CACHE_DTLB | 1 << 8 | 0x10000) ? 1 : 0;
    const bool is_there = event->kind == KYMO_COUNTED_HARDWARE
                              ? event->number <= KYMO_HARDWARE_INSTRUCTIONS
                              : event->kind == KYMO_COUNTED_RAW && event->number == 7;
    return is_there ? 3 : 0;
}
static uint32_t width(uint32_t counter) { return (void)counter, mistakes += masks == 0, 16; }
static bool program(uint32_t counter, const struct kymo_counted *event, uint64_t value) {
    if (masks == 0 || counters[this_cpu][counter].counts) return false;
    counters[this_cpu][counter].event = *event;
    counters[this_cpu][counter].value = value;
    return true;
}
static uint64_t read_counter(uint32_t counter) {
    static bool is_inside;
    mistakes += masks == 0;
    if (!is_inside) { /* as from the handler of a trap that the driver has made */
        is_inside = true;
        kymo_counting_tick();
        is_inside = false;
    }
    return counters[this_cpu][counter].value;
}
static void set(uint64_t which, bool on) {
    mistakes += masks == 0;
    for (int counter = 0; counter < COUNTERS; counter++)
        if (which >> counter & 1) counters[this_cpu][counter].counts = on;
}
static void start(uint64_t which) { set(which, true); }
static void stop(uint64_t which) { set(which, false); }

static const struct kymo_pmu pmu = {COUNTERS, counters_of, width, program, read_counter, start, stop};
KYMO_COUNTING(counting, 2, &pmu)

/* Something happens on a CPU, in a program. */
static void happen(uint32_t kind, uint64_t number, uint64_t count) {
    for (int counter = 0; counter < COUNTERS; counter++) {
        const struct kymo_counted *event = &counters[this_cpu][counter].event;
        if (counters[this_cpu][counter].counts && event->kind == kind && event->number == number &&
            !(event->exclude & KYMO_EXCLUDE_USER))
            counters[this_cpu][counter].value = (counters[this_cpu][counter].value + count) % ENDS;
    }
}

#ifdef __cplusplus
extern "C" {
#endif
uint64_t kymo_port_clock(void) { return now; }
uint64_t kymo_port_frequency(void) { return frequency; }
uint32_t kymo_port_cpu(void) { return this_cpu; }
uintptr_t kymo_port_mask(void) { return (uintptr_t)++masks; }
void kymo_port_unmask(uintptr_t saved) { (void)saved, masks--; }
static void synchronize(void) {}
static void tick_masked(void) {
    masks++;
    kymo_counting_tick();
    masks--;
}
/* Nobody starts or stops a mode meanwhile. */
static void notice(void) {
    for (int cpu = 0; cpu < 2; cpu++) {
        tick_masked();
        this_cpu ^= 1;
    }
    mistakes += kymo_finish(KYMO_COUNT, NULL) >= 0;
    notices++;
}
#ifdef __cplusplus
}
#endif

/* A millisecond in which both CPUs work. */
static void pass(void) {
    now += 1000;
    for (this_cpu = 0; this_cpu < 2; this_cpu++) {
        happen(KYMO_COUNTED_HARDWARE, KYMO_HARDWARE_CYCLES, 40000 + 1000 * this_cpu);
        happen(KYMO_COUNTED_HARDWARE, KYMO_HARDWARE_INSTRUCTIONS, 20000);
        happen(KYMO_COUNTED_RAW, 7, 3);
        masks++;
        kymo_happened(KYMO_SOFTWARE_PAGE_FAULTS, true);
        kymo_happened(KYMO_SOFTWARE_PAGE_FAULTS, false);
        kymo_happened(KYMO_SOFTWARE_PAGE_FAULTS, false);
        kymo_happened(1000, true);
        masks--;
        tick_masked();
    }
    this_cpu = 0;
}

/* The CPUs that count, as bits. */
static int counting_cpus(void) {
    int cpus = 0;
    for (int counter = 0; counter < COUNTERS; counter++)
        cpus |= counters[0][counter].counts | counters[1][counter].counts << 1;
    return cpus;
}

static int refused(struct kymo_config config) {
    struct kymo_pmu wrong = pmu;
    struct kymo_counting other = counting;
    wrong.stop = NULL;
    other.pmu = &wrong;
    config.counting = &other;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EFAULT);
    other = counting;
    other.library = NULL;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EFAULT);
    config.counting = NULL;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    config.counting = &counting;
    config.counting_groups = "cycels";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    config.counting_groups = "cache-misses";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    config.counting_groups = "cycles+tracepoint:5";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    config.counting_groups = "cycles+instructions+r7";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    config.counting_groups = "cycles++r7++cache-misses";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    config.counting_groups = "cycles++cycles++cycles++cycles++cycles";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    config.counting_groups = "cycles+++cycles";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    CHECK(counting_cpus() == 0);

    /* A session that was opened without the table has no events for it. */
    config.counting = NULL;
    CHECK(kymo_start(KYMO_TRACE, &config) > 0);
    config.counting = &counting;
    config.counting_groups = NULL;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0 && masks == 0);
    return 0;
}

/* Without a notice, a CPU finds at its tick what has begun, and what has ended. */
static int unnoticed(struct kymo_config config) {
    config.counting_notice = NULL;
    CHECK(kymo_start(KYMO_COUNT, &config) > 0 && counting_cpus() == 1);
    pass();
    CHECK(counting_cpus() == 3);
    CHECK(kymo_stop(KYMO_COUNT) > 0 && counting_cpus() == 2);
    pass();
    CHECK(counting_cpus() == 0 && kymo_finish(KYMO_COUNT, NULL) == 0);
    return 0;
}

/* A refused start that joins leaves the trace as it is. */
static int joins(struct kymo_config config) {
    CHECK(kymo_start(KYMO_TRACE, &config) > 0);
    config.counting_groups = "cycles++cache-misses";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL && counting_cpus() == 0);
    struct kymo_counts before, after;
    CHECK(kymo_counts(&before) == 0);
    kymo_sched_wakeup(1, 2, 0);
    CHECK(kymo_counts(&after) == 0 && after.retained == before.retained + 1);
    config.counting_groups = "dTLB-store-misses";
    CHECK(kymo_start(KYMO_COUNT, &config) > 0 && counting_cpus() == 3);
    CHECK(kymo_finish(KYMO_COUNT, NULL) == 0 && counting_cpus() == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    return 0;
}

/* A session has one list of groups. */
static int the_same_groups(struct kymo_config config) {
    CHECK(kymo_start(KYMO_TRACE, &config) > 0 && kymo_start(KYMO_COUNT, &config) > 0);
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINPROGRESS);
    CHECK(kymo_finish(KYMO_COUNT, NULL) == 0 && kymo_start(KYMO_COUNT, &config) > 0);
    CHECK(counting_cpus() == 3 && kymo_finish(KYMO_COUNT, NULL) == 0);
    config.counting_groups = "instructions";
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINPROGRESS && counting_cpus() == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    return 0;
}

static char text[4096];
static int32_t put(void *context, const char *piece, size_t size) {
    (void)context;
    if (size < sizeof text - strlen(text)) strncat(text, piece, size);
    return 0;
}

/* What was counted is shown on the target. */
static int shown(const struct kymo_config *config) {
    CHECK(kymo_start(KYMO_COUNT, config) > 0);
    for (int times = 0; times < 2; times++) pass();
    CHECK(kymo_dump(put, NULL, 2) == 0);
    CHECK(strstr(text, " group_count time_enabled=2000000 time_running=1000000 group=0 "
                       "counts=[41000, 2]") != NULL);
    CHECK(kymo_finish(KYMO_COUNT, NULL) == 0);
    return 0;
}

/* Whether all CPUs count these, and nothing else. */
static bool counts_cycles_and_instructions(void) {
    bool each[2][2] = {{false, false}, {false, false}};
    for (int cpu = 0; cpu < 2; cpu++)
        for (int counter = 0; counter < COUNTERS; counter++) {
            const struct kymo_counted *event = &counters[cpu][counter].event;
            if (counters[cpu][counter].counts && event->kind == KYMO_COUNTED_HARDWARE &&
                event->number <= KYMO_HARDWARE_INSTRUCTIONS && event->exclude == 0)
                each[cpu][event->number] = true;
        }
    return each[0][0] && each[0][1] && each[1][0] && each[1][1];
}

/* Records of groups that a session has, four milliseconds after its beginning. */
static int records_in_four_ms(void) {
    int records = 0;
    for (int times = 0; times < 4; times++) pass();
    text[0] = 0;
    if (kymo_dump(put, NULL, 100) != 0) return -1;
    for (const char *at = text; (at = strstr(at, " group_count ")) != NULL; at++) records++;
    return records;
}

int main(int argc, char **argv) {
    struct kymo_config config;
    const char *wrong;
    int32_t channels;
    CHECK(argc == 2);
    tick_masked(); /* before any session */
    memset(&config, 0, sizeof config);
    config.synchronize = synchronize;
    /* The first table is the one that is used; not this one, which lacks room for a CPU. */
    struct kymo_counting one_cpu = counting;
    one_cpu.cpus = 1;
    config.counting = &one_cpu;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    /* The frequency is not known yet, and the clock is far ahead of what it is later. */
    config.counting = &counting;
    now = 1000000000;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EAGAIN);
    tick_masked();
    frequency = 1000000;
    now = 1000;
    CHECK(refused(config) == 0);

    config.counting = &counting;
    config.counting_groups = "cycles+page-faults:u++r7:u+instructions:k+page-faults:k";
    config.counting_ns = 2000000;
    config.counting_notice = notice;
    channels = kymo_start(KYMO_COUNT, &config);
    CHECK(channels > 0 && notices == 1);
    for (int times = 0; times < 8; times++) pass();
    CHECK(kymo_stop(KYMO_COUNT) == channels && notices == 2 && masks == 0);
    CHECK(counting_cpus() == 0);
    pass();
    CHECK(drain(KYMO_COUNT, argv[1], channels) == 0);
    CHECK(kymo_finish(KYMO_COUNT, NULL) == 0);

    /* Without the table, also after a session that had it; and with another one. */
    config.counting = NULL;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    struct kymo_counting second = counting;
    config.counting = &second;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL);
    config.counting = &counting;
    CHECK(unnoticed(config) == 0);
    CHECK(joins(config) == 0);
    CHECK(the_same_groups(config) == 0);
    CHECK(shown(&config) == 0);

    /* What a configuration leaves open; and the word of a command line, which is before it. */
    config.counting_groups = NULL;
    config.counting_ns = 0;
    CHECK(kymo_start(KYMO_COUNT, &config) > 0 && counts_cycles_and_instructions());
    CHECK(records_in_four_ms() == 2 && kymo_stop(KYMO_COUNT) > 0);
    /* They were on all the time, and the counters of 16 bits have gone past their end twice. */
    text[0] = 0;
    CHECK(kymo_dump(put, NULL, 100) == 0 && strstr(text, "counts=[160000, 80000]") != NULL);
    CHECK(strstr(text, "counts=[164000, 80000]") != NULL && kymo_finish(KYMO_COUNT, NULL) == 0);
    config.counting_groups = "r7";
    CHECK(kymo_start_as("kymo=counters=instructions++cycles,count_ns=1000000", &config, &wrong) > 0);
    CHECK(counts_cycles_and_instructions() && records_in_four_ms() == 2 * 2 * 5);
    CHECK(kymo_finish(KYMO_COUNT, NULL) == 0 && kymo_finish(KYMO_TRACE, NULL) == 0);
    CHECK(kymo_start_as("kymo=counters=cycles,counters_on=sched_switch", &config, &wrong) ==
          -KYMO_EOPNOTSUPP);
    CHECK(mistakes == 0);
    return 0;
}
