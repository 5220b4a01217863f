/* Counters of the kernel's own, on two CPUs: they count with and without a session, are recorded at
 * their period and at the end, and a list that does not fit is refused. */
#include <string.h>
#include "check.h"

#define MY_COUNTERS(COUNTER, GAUGE, HISTOGRAM)                                    \
    COUNTER(packets_sent, packets)                                                \
    HISTOGRAM(request_size, bytes)                                                \
    GAUGE(buffers_used, buffers)                                                  \
    HISTOGRAM(reply_size, bytes)
KYMO_COUNTERS(MY_COUNTERS)

KYMO_MEMORY_COUNTING(2, KYMO_REGION_SIZE(2, 16, 1024))
KYMO_COUNTER_TABLE(my_counters, MY_COUNTERS)

static uint32_t this_cpu;
static uint64_t now;
static int masks;

#ifdef __cplusplus
extern "C" {
#endif
uint64_t kymo_port_clock(void) { return now; }
uint64_t kymo_port_frequency(void) { return 1000000000; }
uint32_t kymo_port_cpu(void) { return this_cpu; }
uintptr_t kymo_port_mask(void) { return (uintptr_t)++masks; }
void kymo_port_unmask(uintptr_t saved) { (void)saved, masks--; }
static void synchronize(void) {}
#ifdef __cplusplus
}
#endif

/* A list that is not the memory's. */
static int refuses(struct kymo_counters wrong, int32_t error) {
    struct kymo_config config;
    memset(&config, 0, sizeof config);
    config.synchronize = synchronize;
    config.counters = &wrong;
    CHECK(kymo_start(KYMO_TRACE, &config) == -error);
    return 0;
}

static int wrong_lists(void) {
    struct kymo_own_counter list[2];
    struct kymo_counters wrong = my_counters;
    memcpy(list, my_counters.list, sizeof list);
    wrong.list = list;
    wrong.count = 2;
    wrong.words = 67;
    wrong.library = NULL;
    CHECK(refuses(wrong, KYMO_EFAULT) == 0);
    wrong.library = my_counters.library;
    list[1].name = list[0].name;
    CHECK(refuses(wrong, KYMO_EEXIST) == 0);
    list[1].name = "with blank";
    CHECK(refuses(wrong, KYMO_EPROTO) == 0);
    list[1].name = NULL;
    CHECK(refuses(wrong, KYMO_EPROTO) == 0);
    list[1].name = "other";
    list[1].unit = "";
    CHECK(refuses(wrong, KYMO_EPROTO) == 0);
    list[1].unit = "bytes";
    list[1].kind = 3;
    CHECK(refuses(wrong, KYMO_EINVAL) == 0);
    list[1].kind = KYMO_COUNTER_HISTOGRAM;
    list[1].word = 2;
    CHECK(refuses(wrong, KYMO_EPROTO) == 0);
    list[1].word = 1;
    wrong.words = 66;
    CHECK(refuses(wrong, KYMO_EINVAL) == 0);

    /* More words than the memory has. */
    struct kymo_own_counter more[4];
    memcpy(more, list, sizeof list);
    more[2] = more[3] = more[1];
    more[2].name = "more";
    more[2].word = 67;
    more[3].name = "most";
    more[3].word = 133;
    wrong.list = more;
    wrong.count = 4;
    wrong.words = 199;
    CHECK(refuses(wrong, KYMO_EINVAL) == 0);
    return 0;
}

/* The macro makes room for what the declarations take, and not much more. */
static int declarations_have_room(void) {
    struct kymo_config config;
    size_t with, without;
    memset(&config, 0, sizeof config);
    config.synchronize = synchronize;
    config.packets = 1u << 20;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_ENOMEM);
    without = kymo_memory_needed();
    config.counters = &my_counters;
    CHECK(kymo_start(KYMO_TRACE, &config) == -KYMO_ENOMEM);
    with = kymo_memory_needed();
    CHECK(with - without <= (size_t)kymo_counter_bytes + 64);
    CHECK(with - without > (size_t)kymo_counter_bytes / 2);
    return 0;
}

int main(int argc, char **argv) {
    struct kymo_config config;
    int32_t channels;
    CHECK(argc == 2 && wrong_lists() == 0 && declarations_have_room() == 0);

    /* Before any session, and beyond the memory. */
    count_packets_sent(1);
    kymo_count(134, 1);
    kymo_count(UINT32_MAX, 1);
    kymo_observe(69, 1);
    kymo_observe(UINT32_MAX, 1);
    CHECK(kymo_uncounted() == 0);
    this_cpu = 2;
    count_packets_sent(1);
    count_packets_sent_masked(1);
    observe_request_size(1);
    observe_request_size_masked(1);
    this_cpu = 0;
    CHECK(kymo_uncounted() == 4);
    CHECK(masks == 0);

    memset(&config, 0, sizeof config);
    config.synchronize = synchronize;
    config.counters = &my_counters;
    config.counters_period = 100;
    channels = kymo_start(KYMO_TRACE, &config);
    CHECK(channels > 0);
    kymo_tick(); /* due at once */
    now = 99;
    kymo_tick();
    count_packets_sent(2);
    count_packets_sent_masked(3);
    count_buffers_used(5);
    observe_request_size(0);
    observe_request_size(1500);
    observe_request_size_masked(UINT64_C(1) << 40);
    this_cpu = 1;
    count_buffers_used_masked(-2);
    count_packets_sent((size_t)-1);
    observe_request_size(1);
    this_cpu = 0;
    now = 100;
    kymo_tick();
    kymo_tick();
    count_packets_sent(10);
    now = 150;
    CHECK(kymo_stop(KYMO_TRACE) == channels);
    count_packets_sent(1000);
    CHECK(drain(KYMO_TRACE, argv[1], channels) == 0);
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0 && masks == 0);

    /* A session without them, in the same memory. */
    config.counters = NULL;
    CHECK(kymo_start(KYMO_TRACE, &config) > 0);
    now = 1000;
    kymo_tick();
    CHECK(kymo_finish(KYMO_TRACE, NULL) == 0);
    return 0;
}
