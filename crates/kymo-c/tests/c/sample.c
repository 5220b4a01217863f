/* Samples join a trace and leave it; what is wrong about a sample does no harm. */
#include <string.h>
#include "port.h"
#include "check.h"

KYMO_MEMORY(2, KYMO_REGION_SIZE(2, 32, 2048) + 2 * 8 * 2048)
KYMO_SAMPLER(sampler, 2)

uint32_t this_cpu;
int masked;
static uint64_t now;

uint64_t kymo_port_clock(void) { return ++now; }
uint64_t kymo_port_frequency(void) { return 1000000000; }
uint32_t kymo_port_cpu(void) { return this_cpu; }
uintptr_t kymo_port_mask(void) { return 0; }
void kymo_port_unmask(uintptr_t saved) { (void)saved; }

static void synchronize(void) {}

static uint64_t told = 1;
static void sampling(uint64_t period) { told = period; }

/* Two frames of functions of the kernel's, and one of the program's. */
static uintptr_t stack[8], program[4];

static bool program_stack(uintptr_t address, struct kymo_window *found) {
    if (address < 0x7000 || address >= 0x7020)
        return false;
    found->begin = 0x7000;
    found->end = 0x7020;
    found->at = program;
    return true;
}

static struct kymo_sample sample(void) {
    struct kymo_sample sample;
    memset(&sample, 0, sizeof sample);
    stack[0] = (uintptr_t)&stack[4];
    stack[1] = 0x1008;
    stack[5] = 0x1010;
    program[1] = 0x5008;
    sample.ip = 0x1000;
    sample.fp = (uintptr_t)stack;
    sample.tid = 7;
    sample.mode = KYMO_CPU_MODE_KERNEL;
    sample.text[0] = 0x1000;
    sample.text[1] = 0x2000;
    sample.stacks[1].begin = (uintptr_t)stack;
    sample.stacks[1].end = (uintptr_t)(stack + 8);
    sample.program_text[0] = 0x5000;
    sample.program_text[1] = 0x6000;
    sample.program_stack = program_stack;
    return sample;
}

static int take(void) {
    struct kymo_sample it = sample();
    CHECK(kymo_sample(&it));
    it.has_program = true;
    it.program_ip = 0x5000;
    it.program_fp = 0x7000;
    it.missed = 3;
    CHECK(kymo_sample(&it));
    it.mode = KYMO_CPU_MODE_USER;
    it.ip = 0x5004;
    it.fp = 0x7000;
    CHECK(kymo_sample(&it));
    /* Off the stack, and a mode that there is not. */
    it.mode = 9;
    it.has_program = false;
    it.fp = 0xfff0;
    CHECK(kymo_sample(&it));
    this_cpu = 1;
    CHECK(kymo_sample(&it));
    this_cpu = 0;
    CHECK(!kymo_sample(NULL));
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    struct kymo_sample it = sample();
    struct kymo_config config;
    memset(&config, 0, sizeof config);
    config.synchronize = synchronize;
    config.sampling = sampling;
    CHECK(kymo_sample_period() == 0 && !kymo_sample(&it));

    /* What cannot be started, and what is no mode. */
    CHECK(kymo_start(KYMO_SAMPLE, &config) == -KYMO_EINVAL); /* no sampler */
    config.sampler = &sampler;
    CHECK(kymo_start(KYMO_SAMPLE, &config) == -KYMO_EINVAL); /* no period */
    config.sample_period = 1000;
    CHECK(kymo_start(KYMO_SAMPLE, &config) == -KYMO_EINVAL); /* no channels */
    config.samples_packets = 8;
    CHECK(kymo_start(KYMO_COUNT, &config) == -KYMO_EINVAL); /* no counting */
    CHECK(kymo_start(3, &config) == -KYMO_ENOSYS);

    /* It would join a session that was started without a sampler. */
    config.sampler = NULL;
    CHECK(kymo_start(KYMO_TRACE, &config) == 7);
    config.sampler = &sampler;
    CHECK(kymo_start(KYMO_SAMPLE, &config) == -KYMO_EINVAL);
    CHECK(kymo_finish(KYMO_SAMPLE, NULL) == -KYMO_EINVAL && told == 1);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);

    config.flags = KYMO_HOST_READS;
    CHECK(kymo_start(KYMO_TRACE, &config) == 7);
    CHECK(!kymo_sample(&it) && kymo_sample_period() == 0);
    CHECK(kymo_read(KYMO_SAMPLE, 0, &it, sizeof it) == -KYMO_EINVAL);
    kymo_thread_yield(1);
    config.flags = KYMO_ROLLING;
    CHECK(kymo_start(KYMO_SAMPLE, &config) == 7);
    CHECK(kymo_flags() == KYMO_HOST_READS); /* the first mode's */
    CHECK(told == 1000 && kymo_sample_period() == 1000);
    uint64_t next = kymo_sample_next();
    CHECK(next >= 750 && next <= 1250);
    this_cpu = 1;
    CHECK(kymo_sample_next() != next);
    this_cpu = 0;
    CHECK(take() == 0);
    CHECK(kymo_stop(KYMO_SAMPLE) == 7 && told == 0);
    CHECK(!kymo_sample(&it));
    kymo_thread_yield(2);
    CHECK(kymo_stop(KYMO_TRACE) == 7);
    CHECK(drain(KYMO_SAMPLE, argv[1], 7) == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    CHECK(kymo_finish(KYMO_SAMPLE, NULL) == 0);

    /* Samples alone, whose callers are at most one, with the life of threads. */
    struct kymo_counts counts;
    struct kymo_totals totals;
    config.flags = 0;
    config.sample_depth = 1;
    CHECK(kymo_start(KYMO_SAMPLE, &config) == 7 && kymo_is_recording());
    kymo_thread_yield(3);
    CHECK(kymo_counts(&counts) == 0 && counts.retained == 0);
    kymo_thread_create(3, 0, 0, 0);
    CHECK(kymo_counts(&counts) == 0 && counts.retained == 1);
    CHECK(kymo_sample(&it));
    /* Those without room are counted. */
    uint64_t lost = 0;
    for (int tried = 0; lost < 5; tried++) {
        CHECK(tried < 1000000);
        lost += !kymo_sample(&it);
    }
    CHECK(kymo_finish(KYMO_SAMPLE, &totals) == 0 && totals.discarded == lost);
    return 0;
}
