/* A kernel whose shell has the command `perf`: records, fails, and gathers. Its only argument is an
 * empty folder. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "port.h"
#include "check.h"

KYMO_MEMORY(1, KYMO_REGION_SIZE(1, 64, 1024))

uint32_t this_cpu;
int masked;
static uint64_t now;

uint64_t kymo_port_clock(void) { return ++now; }
uint64_t kymo_port_frequency(void) { return 1000000; }
uint32_t kymo_port_cpu(void) { return 0; }
uintptr_t kymo_port_mask(void) { return 0; }
void kymo_port_unmask(uintptr_t saved) { (void)saved; }

static char folder[4096];
static int32_t priority = 5, highest;
static uint32_t sleeps, most_sleeps = 1000;
static int32_t fail_at; /* the write that fails, from 1 */

static int32_t prepare(void *context, const char *output) {
    const char *root = context;
    if (output == 0 || snprintf(folder, sizeof folder, "%s/%s", root, output) >= (int)sizeof folder)
        return -22;
    return mkdir(folder, 0777) == 0 || errno == EEXIST ? 0 : -errno;
}
static int32_t append(void *context, const char *name, const void *bytes, size_t size) {
    char path[4200];
    (void)context;
    if (fail_at > 0 && --fail_at == 0)
        return -28;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "ab");
    if (file == 0)
        return -errno;
    size_t written = fwrite(bytes, 1, size, file);
    return fclose(file) == 0 && written == size ? 0 : -5;
}
/* What runs meanwhile: one thread, which is switched to once. */
static void sleep_us(void *context, uint32_t microseconds) {
    (void)context;
    sleeps++;
    now += microseconds;
    kymo_sched_switch(1, 2, KYMO_THREAD_STATE_BLOCKED, KYMO_SWITCH_REASON_WAITS, 0);
}
static bool is_done(void *context) {
    (void)context;
    return sleeps >= most_sleeps;
}
static int32_t set_priority(void *context, int32_t to, int32_t *before) {
    (void)context;
    *before = priority;
    priority = to;
    highest = to > highest ? to : highest;
    return to < 100 ? 0 : -22;
}

#define COUNT(words) ((int)(sizeof(words) / sizeof(words)[0]))
int main(int argc, char **argv) {
    static uint32_t buffer[4096];
    static const char *const words[] = {"-t", "10", "-s", "2", "-p", "9", "-o", "recorded", "rest"};
    static const char *const wrong[] = {"-t", "soon"};
    static const struct kymo_config config, rolling = {.flags = KYMO_ROLLING};
    struct kymo_perf perf = {.context = argv[argc - 1], .prepare = prepare, .write = append,
                             .sleep = sleep_us, .buffer = buffer, .buffer_size = sizeof buffer};
    struct kymo_perf_options options;

    CHECK(kymo_perf_options(&options, COUNT(wrong), wrong) == -KYMO_EINVAL);
    CHECK(kymo_perf_options(0, COUNT(words), words) == -KYMO_EFAULT);
    CHECK(kymo_perf_options(&options, 0, 0) == 0);
    CHECK(options.duration_ms == 3000 && options.interval_ms == 100 && !options.has_priority);
    CHECK(options.buffer_size == 262144 && options.output == 0);
    CHECK(kymo_perf_options(&options, COUNT(words), words) == COUNT(words) - 1);
    CHECK(options.duration_ms == 10 && options.interval_ms == 2);
    CHECK(options.has_priority && options.priority == 9 && strcmp(options.output, "recorded") == 0);

    /* The kernel has no priorities: nothing begins. */
    CHECK(kymo_perf_record(&perf, &config, &options) == -KYMO_EINVAL);
    perf.set_priority = set_priority;
    CHECK(kymo_perf_record(&perf, &config, &options) == 0);
    CHECK(sleeps == 5 && priority == 5 && highest == 9);

    /* A folder that is a file, a full disk, and a session that runs. */
    options.output = "no/folder";
    CHECK(kymo_perf_record(&perf, &config, &options) < 0);
    options.output = "full";
    fail_at = 2;
    CHECK(kymo_perf_record(&perf, &config, &options) == -28);
    CHECK(priority == 5 && kymo_stop(KYMO_TRACE) == -KYMO_EINVAL);
    CHECK(kymo_perf_gather(&perf, "nothing") == -KYMO_EINVAL);
    CHECK(kymo_start(KYMO_TRACE, &rolling) > 0);
    CHECK(kymo_perf_record(&perf, &config, &options) == -KYMO_EINPROGRESS);

    /* That session is gathered; it goes on until there is a folder. */
    sleep_us(0, 10);
    CHECK(kymo_perf_gather(&perf, "no/folder") < 0);
    sleep_us(0, 10);
    CHECK(kymo_perf_gather(&perf, "gathered") == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == -KYMO_EINVAL);

    /* A session whose data could not be kept is stopped, and can be gathered again. */
    CHECK(kymo_start(KYMO_TRACE, &rolling) > 0);
    fail_at = 2;
    CHECK(kymo_perf_gather(&perf, "again") == -28);
    CHECK(kymo_stop(KYMO_TRACE) == -KYMO_EINVAL);
    CHECK(kymo_perf_gather(&perf, "again") == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == -KYMO_EINVAL);

    /* Until the subject has ended. */
    options.duration_ms = 0;
    options.output = "subject";
    CHECK(kymo_perf_record(&perf, &config, &options) == -KYMO_EINVAL);
    perf.is_done = is_done;
    sleeps = 0, most_sleeps = 3;
    CHECK(kymo_perf_record(&perf, &config, &options) == 0 && sleeps == 3);
    perf.write = 0;
    CHECK(kymo_perf_record(&perf, &config, &options) == -KYMO_EFAULT);
    return 0;
}
