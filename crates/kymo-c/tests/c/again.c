/* What a session has lost is told at its end; what it left in the memory can be taken up again; and
 * the kernel decides who may call. */
#include <string.h>
#include "one_cpu.h"
#include "check.h"

KYMO_MEMORY(1, 1 << 17)

static uint32_t asked[8], denied = 8;

static bool permits(uint32_t call) {
    asked[call]++;
    return call != denied;
}

/* What is lost, and steps back of the clock, are in the trace: host.rs reads it. */
static int lost(const char *folder, const struct kymo_config *config) {
    struct kymo_totals totals;
    CHECK(kymo_start(KYMO_TRACE, config) == 3);
    for (uint32_t i = 0; i < 2000; i++)
        kymo_thread_yield(i);
    CHECK(drain(KYMO_TRACE, folder, 3) == 0);
    kymo_thread_yield(2000);
    now -= 5; /* in a window of time: who reads sees it */
    kymo_thread_yield(2001);
    now += 1 << 28;
    kymo_thread_yield(2002);
    now -= 1 << 28; /* out of it: whoever records does */
    kymo_thread_yield(2003);
    now += 1 << 28;
    CHECK(kymo_stop(KYMO_TRACE) == 3 && drain(KYMO_TRACE, folder, 3) == 0);
    CHECK(kymo_finish(KYMO_TRACE, &totals) == 0 && totals.clock_back == 1);
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    static uint32_t buffer[4096];
    struct kymo_config config = {.packets = 4};
    struct kymo_counts counts;
    struct kymo_totals totals;
    CHECK(kymo_start(KYMO_TRACE, &config) == 3);
    for (uint32_t i = 0; i < 2000; i++)
        kymo_thread_yield(i);
    CHECK(kymo_counts(&counts) == 0);
    CHECK(counts.retained > 100 && counts.retained + counts.discarded == 2000);
    CHECK(kymo_finish(KYMO_TRACE, (struct kymo_totals *)((char *)&totals + 1)) == -KYMO_EFAULT);
    CHECK(kymo_finish(KYMO_TRACE, &totals) == 0);
    CHECK(totals.discarded == counts.discarded && totals.too_large == 0);
    CHECK(totals.overwritten == 0 && totals.without_ring == 0 && totals.abandoned == 0);
    CHECK(kymo_buffer_size() == -KYMO_EINVAL);

    /* As after a warm reset. */
    CHECK(kymo_reopen(KYMO_TRACE) == 3);
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_EINPROGRESS);
    CHECK(kymo_stop(KYMO_TRACE) == -KYMO_EINVAL);
    CHECK(kymo_buffer_size() > 1024 && kymo_buffer_size() <= (int32_t)sizeof buffer);
    CHECK(kymo_counts(&counts) == 0 && counts.retained + counts.discarded == 2000);
    uint32_t events = 0;
    int32_t bytes;
    while ((bytes = kymo_read(KYMO_TRACE, 2, buffer, sizeof buffer)) > 0)
        /* Records of three words behind a header of 21. */
        events += ((uint32_t)bytes / 4u - 21u) / 3u;
    CHECK(bytes == 0 && events == counts.retained);
    CHECK(kymo_read(KYMO_TRACE, 0, buffer, sizeof buffer) > 4096);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    memset(kymo_memory, 0, 4096);
    CHECK(kymo_reopen(KYMO_TRACE) == 0 && kymo_buffer_size() == -KYMO_EINVAL);

    /* A record is its header and its fields. */
    CHECK(kymo_start(KYMO_TRACE, &config) == 3);
    for (uint32_t i = 0; i < 10; i++)
        kymo_irq_handler_entry(1);
    /* Behind a packet that says when the session began. */
    CHECK(kymo_read(KYMO_TRACE, 2, buffer, sizeof buffer) == 4 * 21);
    CHECK(kymo_read(KYMO_TRACE, 2, buffer, sizeof buffer) == 4 * 21 + 8 * 10);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);

    CHECK(lost(argv[1], &config) == 0);

    /* Nobody may do one of the calls. */
    CHECK(kymo_start(KYMO_TRACE, &config) == 3);
    kymo_set_permits(permits);
    for (denied = 0; denied < 6; denied++) {
        int32_t errors = 0;
        errors += kymo_snapshot(KYMO_TRACE) == -KYMO_EPERM;
        errors += kymo_switch(KYMO_TRACE, KYMO_ID_SCHED_SWITCH, true) == -KYMO_EPERM;
        errors += kymo_read(KYMO_TRACE, 0, buffer, sizeof buffer) == -KYMO_EPERM;
        errors += kymo_stop(KYMO_TRACE) == -KYMO_EPERM;
        errors += kymo_finish(KYMO_TRACE, NULL) == -KYMO_EPERM;
        errors += kymo_start(KYMO_TRACE, &config) == -KYMO_EPERM;
        CHECK(errors == 1);
        if (denied == KYMO_CALL_START)
            kymo_set_permits(NULL), kymo_start(KYMO_TRACE, &config), kymo_set_permits(permits);
    }
    for (uint32_t call = 0; call < 6; call++)
        CHECK(asked[call] == 6);
    kymo_set_permits(NULL);
    return kymo_finish(KYMO_TRACE, NULL) == 0 ? 0 : 1;
}
