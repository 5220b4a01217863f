/* A thing is named once in a session, and in a flight recorder again before its name is lost. */
#include "one_cpu.h"
#include "check.h"

KYMO_MEMORY(1, 1 << 16)

static struct kymo_name_epoch thread, lock;

/* Names other threads until the rings of names have rolled over. */
static void name_others(uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        kymo_thread_name(100 + i, "another thread", KYMO_TO_NUL);
}

/* Whether a call has recorded the thread's name: an epoch is noted then. */
static bool is_named_again(void) {
    const uint32_t before = thread.epoch;
    kymo_thread_named(&thread, 1, "one", KYMO_TO_NUL);
    return thread.epoch != before;
}

int main(void) {
    struct kymo_config config = {.packet_size = 256, .packets = 4, .names_packets = 8};
    kymo_thread_named(&thread, 1, "one", KYMO_TO_NUL);
    CHECK(thread.epoch == 0);

    /* As long as nothing is overwritten, once in a session. */
    CHECK(kymo_start(KYMO_TRACE, &config) == 3);
    CHECK(is_named_again() && !is_named_again());
    kymo_lock_named(&lock, 7, KYMO_LOCK_KIND_MUTEX, "bus", KYMO_TO_NUL);
    CHECK(lock.epoch == thread.epoch);
    name_others(20);
    CHECK(!is_named_again());
    /* A name without room is tried again. */
    name_others(1000);
    thread.epoch = 0;
    CHECK(!is_named_again() && thread.epoch == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);

    /* In the next session, once more; in a flight recorder, whenever the ring has rolled on. */
    config.flags = KYMO_ROLLING;
    CHECK(kymo_start(KYMO_TRACE, &config) == 3);
    CHECK(is_named_again() && !is_named_again());
    uint32_t times = 0;
    for (uint32_t i = 0; i < 100; i++) {
        name_others(5);
        times += is_named_again();
    }
    CHECK(times > 10 && times < 100);
    /* A thread that gets the number of another one. */
    thread.epoch = 0;
    CHECK(is_named_again());
    CHECK(kymo_switch(KYMO_TRACE, KYMO_ID_THREAD_NAME, false) == 0);
    thread.epoch = 0;
    CHECK(!is_named_again());
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    return 0;
}
