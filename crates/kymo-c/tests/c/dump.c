/* What was recorded, shown by the kernel itself: host.rs has the lines. */
#include "port.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            printf("%d: %s\n", __LINE__, #condition);                             \
            return 1;                                                             \
        }                                                                         \
    } while (0)

KYMO_MEMORY(2, KYMO_REGION_SIZE(2, 8, 1024))
KYMO_EVENT_TABLE(my_events, MY_EVENTS)

uint32_t this_cpu;
int masked;
static uint64_t now;

uint64_t kymo_port_clock(void) { return now += 10; }
uint64_t kymo_port_frequency(void) { return 1000000; }
uint32_t kymo_port_cpu(void) { return this_cpu; }
uintptr_t kymo_port_mask(void) { return 0; }
void kymo_port_unmask(uintptr_t saved) { (void)saved; }

static void synchronize(void) {}

/* Where the texts go, at most `room` of their bytes. */
static size_t room = SIZE_MAX;
static int32_t put(void *context, const char *text, size_t size) {
    fwrite(text, 1, size, context);
    if (size > room)
        return -5;
    room -= size;
    return 0;
}

/* Compares a record as a text. */
static bool is(size_t index, const char *expected) {
    struct kymo_record record;
    char text[300];
    const int32_t length = kymo_get(index, &record, text, sizeof text);
    if (length == (int32_t)strlen(expected) && strcmp(text, expected) == 0)
        return true;
    printf("record %zu: %d %s\n", index, (int)length, text);
    return false;
}

static int records(void) {
    struct kymo_record record;
    char text[8];
    CHECK(is(0, "thread_name tid=5 name=\"worker\""));
    CHECK(is(4, "[5 worker] block_done sector=1311768467463790320 error=-5"));
    CHECK(is(5, "[7] lock_acquired lock=0xffffffffffffffff "
                "(the \\\"bus\\\") kind=Mutex contended=true"));
    CHECK(kymo_get(4, &record, text, sizeof text) == 57 && strcmp(text, "[5 work") == 0);
    CHECK(record.cpu == 0 && record.tid == 5 && record.id == 21 && record.size == 12);
    CHECK(record.name_size == 10 && memcmp(record.name, "block_done", 10) == 0);
    CHECK(record.words[0] == 0x9abcdef0u && record.words[1] == 0x12345678u);
    CHECK(record.words[2] == (uint32_t)-5 && record.words[3] == 0);
    const uint64_t time = record.time;
    /* What is between the fields, and behind a text, is zero. */
    CHECK(kymo_get(6, &record, NULL, 0) == 0 && record.name_size == 10 && record.size == 68);
    CHECK(record.words[0] == 0x00020001u && record.words[4] == 0xfffe00ffu);
    CHECK(record.words[8] == 0xf2f200f1u && record.words[12] == 1);
    CHECK(record.words[13] == 7 && record.words[15] == 0x00ff0aa9u);
    CHECK(kymo_get(5, &record, NULL, 0) == 0 && record.time == time + 10);
    CHECK(record.cpu == 1 && record.tid == 7 && record.id == KYMO_ID_LOCK_ACQUIRED);
    CHECK(kymo_get(0, &record, NULL, 0) == 0 && record.tid == KYMO_TID_UNKNOWN);
    CHECK(kymo_get(10, &record, NULL, 0) == -KYMO_EINVAL);
    CHECK(kymo_get(0, NULL, NULL, 0) == -KYMO_EFAULT);
    CHECK(kymo_get(0, (struct kymo_record *)((char *)&record + 1), NULL, 0) == -KYMO_EFAULT);
    return 0;
}

/* What another thread records while copies are made. */
static atomic_bool ends;
static void *overwrite(void *unused) {
    while (!atomic_load(&ends))
        kymo_pipe_read(now, 0); /* which is one or two looks at the clock before its record */
    return unused;
}

/* A copy that is overwritten meanwhile is not given. */
static int race(void) {
    struct kymo_config config = {.flags = KYMO_ROLLING, .packets = 4, .packet_size = 256,
                                 .synchronize = synchronize};
    struct kymo_record record;
    pthread_t thread;
    this_cpu = 0;
    CHECK(kymo_start(KYMO_TRACE, &config) == 5);
    CHECK(pthread_create(&thread, NULL, overwrite, NULL) == 0);
    for (int found = 0, tried = 0; found < 5000; tried++) {
        CHECK(tried < 100000000);
        if (kymo_get(0, &record, NULL, 0) != 0)
            continue;
        CHECK((uint32_t)record.time - record.words[0] <= 20);
        found++;
    }
    atomic_store(&ends, true);
    CHECK(pthread_join(thread, NULL) == 0);
    return kymo_finish(KYMO_TRACE, NULL) == 0 ? 0 : 1;
}

/* A context switch on the other CPU, for the names of threads that run. */
static void switch_on(uint32_t cpu, kymo_tid to) {
    this_cpu = cpu;
    kymo_sched_switch(0, to, KYMO_THREAD_STATE_RUNNABLE, KYMO_SWITCH_REASON_IDLE, -3);
}

int main(void) {
    struct kymo_config config = {.synchronize = synchronize};
    struct kymo_counts counts;
    KYMO_OWN(config, my_events);
    CHECK(kymo_dump(NULL, NULL, 9) == -KYMO_EFAULT);
    CHECK(kymo_dump(put, stdout, 9) == 0);
    kymo_clear();
    CHECK(!kymo_is_recording());
    CHECK(kymo_start(KYMO_TRACE, &config) == 5 && kymo_is_recording());
    kymo_thread_name(5, "worker", KYMO_TO_NUL);
    kymo_lock_name(UINT64_MAX, KYMO_LOCK_KIND_MUTEX, "the \"bus\"", KYMO_TO_NUL);
    switch_on(0, 5);
    switch_on(1, 7);
    this_cpu = 0;
    trace_block_done(0x123456789abcdef0u, -5);
    this_cpu = 1;
    kymo_lock_acquired(UINT64_MAX, KYMO_LOCK_KIND_MUTEX, true);
    trace_everything(1, 2, 3, 4, -1, -2, -3, -4, 0xf1, 0xf2f2, 0xf3f3f3f3, 0xf4f4f4f4f4f4f4f4u, true,
                     "caf\xc3\xa9\n\xff", KYMO_TO_NUL, "", KYMO_TO_NUL);
    this_cpu = 0;
    trace_watchdog();
    trace_rare_watchdog();
    kymo_pipe_read(0x80002000u, 17);
    CHECK(records() == 0);
    printf("- all\n");
    CHECK(kymo_dump(put, stdout, 100) == 0);
    printf("- newest\n");
    CHECK(kymo_dump(put, stdout, 2) == 0);
    printf("- per CPU\n");
    CHECK(kymo_dump_per_cpu(put, stdout, 2) == 0);
    printf("- in a panic\n");
    CHECK(kymo_dump_on_panic(put, stdout, 1) == 0);
    printf("- cut\n");
    room = 20;
    CHECK(kymo_dump(put, stdout, 100) == -5);
    room = SIZE_MAX;
    printf("\n- cleared\n");
    kymo_clear();
    CHECK(kymo_get(0, &(struct kymo_record){0}, NULL, 0) == -KYMO_EINVAL);
    trace_sensor(42);
    CHECK(is(0, "[5 worker] sensor value=42"));
    CHECK(kymo_dump(put, stdout, 100) == 0);
    CHECK(kymo_counts(&counts) == 0 && counts.retained == 9);
    CHECK(kymo_stop(KYMO_TRACE) == 5 && !kymo_is_recording());
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0 && !kymo_is_recording());
    printf("- finished\n");
    CHECK(kymo_dump(put, stdout, 1) == 0);
    /* The next session, with other events, is not cleared. */
    config.own = NULL;
    config.own_count = 0;
    CHECK(kymo_start(KYMO_TRACE, &config) == 5);
    kymo_thread_yield(3);
    printf("- again\n");
    CHECK(kymo_dump(put, stdout, 5) == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    return race();
}
