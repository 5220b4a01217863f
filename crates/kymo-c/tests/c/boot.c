/* What the word `kymo=` of a command line asks for is recorded, or refused. */
#include <string.h>
#include "one_cpu.h"
#include "check.h"

#define OWN(FIELD) FIELD(u32, number)
#define EVENTS(EVENT, BARE) EVENT(29, booted, OWN)
KYMO_EVENTS(EVENTS)
KYMO_EVENT_TABLE(boot_events, EVENTS)

KYMO_MEMORY(1, 1 << 17)
KYMO_SAMPLER(sampler, 1)

static struct kymo_config config;

/* How many events are recorded of three. */
static uint64_t recorded(void) {
    struct kymo_counts counts;
    kymo_thread_yield(1);
    kymo_irq_handler_entry(7);
    trace_booted(3);
    return kymo_counts(&counts) == 0 ? counts.retained : 1000;
}

/* Where the part begins that is refused, or nothing. */
static const char *refused(const char *line, int32_t expected) {
    const char *wrong = line;
    int32_t found = kymo_start_as(line, &config, &wrong);
    return found != expected ? "other" : wrong == NULL ? "" : wrong;
}

int main(void) {
    KYMO_OWN(config, boot_events);

    /* Without the word: the mode trace. */
    CHECK(kymo_start_as("quiet", &config, NULL) == 3);
    CHECK(recorded() == 3 && kymo_finish(KYMO_TRACE, NULL) == 0);

    CHECK(kymo_start_as("quiet kymo=off", &config, NULL) == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == -KYMO_EINVAL);

    CHECK(kymo_start_as("kymo=start,rolling,events=thread_*:booted", &config, NULL) == 3);
    CHECK(recorded() == 2);
    for (uint32_t i = 0; i < 20000; i++)
        kymo_thread_yield(i);
    struct kymo_totals totals;
    CHECK(kymo_finish(KYMO_TRACE, &totals) == 0);
    CHECK(totals.overwritten > 0 && totals.discarded == 0);

    /* The kernel's own flags, changed. */
    config.flags = KYMO_ROLLING;
    CHECK(kymo_start_as("kymo=discard", &config, NULL) == 3);
    for (uint32_t i = 0; i < 20000; i++)
        kymo_thread_yield(i);
    CHECK(kymo_finish(KYMO_TRACE, &totals) == 0);
    CHECK(totals.overwritten == 0 && totals.discarded > 0);
    config.flags = 0;

    /* Samples: of a kernel that has room for them, and else nothing runs. */
    CHECK(kymo_start_as("kymo=mode=trace:sample", &config, NULL) == -KYMO_EINVAL);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == -KYMO_EINVAL);
    config.sampler = &sampler;
    CHECK(kymo_start_as("kymo=mode=sample:trace,period_ns=5000,depth=9", &config, NULL) == 4);
    CHECK(kymo_sample_period() == kymo_port_frequency() / 200000);
    CHECK(recorded() == 3);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0 && kymo_finish(KYMO_SAMPLE, NULL) == 0);
    CHECK(config.samples_packets == 0 && config.sample_period == 0);

    /* What cannot be used. */
    CHECK(strcmp(refused("a kymo=rolling,fast b", -KYMO_EINVAL), "fast b") == 0);
    CHECK(strcmp(refused("kymo=events=sched_*:irqs", -KYMO_EINVAL), "irqs") == 0);
    CHECK(strcmp(refused("kymo=driver=nmi", -KYMO_EOPNOTSUPP), "") == 0);
    CHECK(strcmp(refused("kymo=stacks=sched_*", -KYMO_EOPNOTSUPP), "") == 0);
    CHECK(strcmp(refused("kymo=mode=sample,stacks=irq_*", -KYMO_EINVAL), "stacks=irq_*") == 0);
    CHECK(strcmp(refused("kymo=mode=count", -KYMO_EOPNOTSUPP), "") == 0);
    CHECK(strcmp(refused("kymo=send", -KYMO_EOPNOTSUPP), "") == 0);
    CHECK(strcmp(refused("\xff kymo=rolling", -KYMO_EINVAL), "") == 0);
    CHECK(kymo_start_as(NULL, &config, NULL) == -KYMO_EFAULT);
    CHECK(kymo_start_as("", NULL, NULL) == -KYMO_EFAULT);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == -KYMO_EINVAL);
    return 0;
}
