/* Sessions with events and samples of two CPUs, sent in frames over a line and an up-buffer: into
 * the files `line` and `rtt` of a folder. */
#include "port.h"
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%d: %s\n", __LINE__, #condition);                    \
            return 1;                                                             \
        }                                                                         \
    } while (0)

KYMO_MEMORY(2, KYMO_REGION_SIZE(2, 16, 2048) + 2 * 4 * 2048)
KYMO_SAMPLER(sampler, 2)
KYMO_EVENT_TABLE(my_events, MY_EVENTS)
KYMO_RTT(rtt, 6000)

uint32_t this_cpu;
int masked;
static uint64_t now;
static uint32_t buffer[8192];

uint64_t kymo_port_clock(void) { return ++now; }
uint64_t kymo_port_frequency(void) { return 1000000; }
uint32_t kymo_port_cpu(void) { return this_cpu; }
uintptr_t kymo_port_mask(void) { return 0; }
void kymo_port_unmask(uintptr_t saved) { (void)saved; }

static void synchronize(void) {}
static bool is_masked(void) { return masked != 0; }

/* A line that takes up to 100 bytes at a time, and every third time none; or nothing at all. */
static FILE *line;
static unsigned turns;
static bool is_stuck;
static size_t offer(void *context, const void *bytes, size_t size) {
    if (is_stuck || ++turns % 3 == 0)
        return 0;
    const size_t taken = size < 100 ? size : 100;
    return fwrite(bytes, 1, taken, context);
}

/* The host's end of the up-buffer, by SEGGER's layout. */
static bool empty(void *context) {
    (void)context;
    uint8_t *up = _SEGGER_RTT + 24 + 2 * sizeof(void *);
    uint8_t *memory;
    uint32_t numbers[3]; /* its size, and where the target and the host are */
    memcpy(&memory, up - sizeof memory, sizeof memory);
    memcpy(numbers, up, sizeof numbers);
    while (numbers[2] != numbers[1]) {
        fputc(memory[numbers[2]], line);
        numbers[2] = (numbers[2] + 1) % numbers[0];
    }
    memcpy(up + 8, &numbers[2], sizeof numbers[2]);
    return true;
}

static FILE *file(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "wb");
}

static void record(uint32_t turn) {
    struct kymo_sample sample;
    memset(&sample, 0, sizeof sample);
    sample.ip = 0x1000 + turn;
    sample.tid = 7;
    for (this_cpu = 0; this_cpu < 2; this_cpu++) {
        trace_sensor(2 * turn + this_cpu);
        kymo_sample(&sample);
    }
    this_cpu = 0;
}

static int start(void) {
    static struct kymo_config config;
    config.synchronize = synchronize;
    config.packets = 16;
    config.packet_size = 2048;
    config.samples_packets = 4;
    config.sample_period = 1000;
    config.sampler = &sampler;
    KYMO_OWN(config, my_events);
    CHECK(kymo_start(KYMO_TRACE, &config) == 7 && kymo_start(KYMO_SAMPLE, &config) == 7);
    return 0;
}

/* Sends a session; `wait` makes room. */
static int session(struct kymo_sender *sender, bool (*wait)(void *context)) {
    CHECK(start() == 0);
    CHECK(kymo_send_open(sender) == 0);
    for (uint32_t turn = 0; turn < 500; turn++) {
        record(turn);
        if (turn % 20 == 0) {
            CHECK(kymo_send(KYMO_TRACE, sender) >= 0);
            wait(sender->context);
        }
    }
    CHECK(kymo_stop(KYMO_SAMPLE) == 7 && kymo_finish(KYMO_SAMPLE, NULL) == 0);
    CHECK(kymo_send_finish(KYMO_TRACE, sender, wait) == 0);
    wait(sender->context);
    const struct kymo_sent sent = kymo_sent(sender);
    CHECK(sent.dropped_frames == 0 && sent.dropped_bytes == 0);
    CHECK(sent.frames == sender->next && sent.bytes == (uint64_t)ftell(line));
    return 0;
}

static bool goes_on(void *context) { return context != NULL; }

/* What is wrong is refused, and what has no room is dropped and counted. */
static int refusals(void) {
    struct kymo_sender sender;
    memset(&sender, 0, sizeof sender);
    CHECK(kymo_send_open(NULL) == -KYMO_EFAULT);
    CHECK(kymo_send_open((struct kymo_sender *)((char *)&sender + 1)) == -KYMO_EFAULT);
    CHECK(kymo_send_open(&sender) == -KYMO_EFAULT); /* no buffer */
    sender.buffer = buffer;
    sender.buffer_size = sizeof buffer;
    CHECK(kymo_send_open(&sender) == -KYMO_EINVAL); /* no session */
    CHECK(start() == 0);
    CHECK(kymo_send_open(&sender) == -KYMO_EFAULT); /* nobody to send to */
    sender.offer = offer;
    sender.context = line;
    sender.buffer_size = (size_t)kymo_buffer_size() - 4;
    CHECK(kymo_send_open(&sender) == -KYMO_EINVAL);
    sender.buffer_size += 4;
    sender.reserved = 1;
    CHECK(kymo_send_open(&sender) == -KYMO_EINVAL);
    sender.reserved = 0;
    CHECK(kymo_send(3, &sender) == -KYMO_ENOSYS && kymo_send(2, &sender) < 0);
    is_stuck = true;
    CHECK(kymo_send_open(&sender) == -KYMO_ENOBUFS);
    CHECK(kymo_sent(&sender).dropped_frames == 1 && kymo_sent(&sender).waits == 0);
    sender.attempts = 9;
    CHECK(kymo_send_open(&sender) == -KYMO_ENOBUFS);
    CHECK(kymo_sent(&sender).dropped_frames == 2 && kymo_sent(&sender).waits == 9);
    sender.masked = is_masked;
    masked = 1;
    CHECK(kymo_send_open(&sender) == -KYMO_ENOBUFS && kymo_sent(&sender).waits == 9);
    masked = 0;
    is_stuck = false;
    /* An up-buffer that has not begun, and one that is too small. */
    sender.rtt = &rtt;
    CHECK(kymo_send(KYMO_TRACE, &sender) == -KYMO_EINVAL);
    rtt.size = (size_t)kymo_buffer_size();
    CHECK(kymo_send_open(&sender) == -KYMO_EINVAL);
    rtt.size = 6000;
    rtt.has_begun = false;
    memset(_SEGGER_RTT, 0, sizeof _SEGGER_RTT);
    /* Nobody empties it. */
    CHECK(kymo_send_open(&sender) == 0);
    CHECK(kymo_send(KYMO_TRACE, &sender) >= 0 && kymo_send(KYMO_TRACE, &sender) == 0);
    CHECK(kymo_finish(KYMO_SAMPLE, NULL) == 0);
    CHECK(kymo_send_finish(KYMO_TRACE, &sender, NULL) == -KYMO_ENOBUFS);
    CHECK(kymo_send(KYMO_TRACE, &sender) == -KYMO_EINVAL); /* it is over */
    rtt.has_begun = false;
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    line = file(argv[1], "refused");
    CHECK(line != NULL && refusals() == 0 && fclose(line) == 0);

    struct kymo_sender over_line;
    memset(&over_line, 0, sizeof over_line);
    over_line.context = line = file(argv[1], "line");
    over_line.offer = offer;
    over_line.attempts = 1000;
    over_line.buffer = buffer;
    over_line.buffer_size = sizeof buffer;
    CHECK(line != NULL && session(&over_line, goes_on) == 0);
    CHECK(kymo_sent(&over_line).waits > 0 && fclose(line) == 0);

    struct kymo_sender over_rtt;
    memset(&over_rtt, 0, sizeof over_rtt);
    over_rtt.rtt = &rtt;
    over_rtt.frame_size = 1000;
    over_rtt.buffer = buffer;
    over_rtt.buffer_size = sizeof buffer;
    line = file(argv[1], "rtt");
    CHECK(line != NULL && session(&over_rtt, empty) == 0);
    CHECK(kymo_sent(&over_rtt).waits == 0 && fclose(line) == 0);
    return 0;
}
