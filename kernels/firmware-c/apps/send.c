/* The trace leaves in frames: one session to a file of the host, by semihosting, and another to an
 * RTT up-buffer, which a debug probe would empty meanwhile. */
#include "app.h"
#include "../events.h"
#include "../rtos.h"

#define TURNS 300u
#define SYS_OPEN 1u
#define SYS_CLOSE 2u
#define SYS_WRITE 5u
#define WRITE_BYTES 5u

KYMO_RTT(rtt, 65536)

static uint32_t buffer[512];
static struct task first, second;

static uintptr_t host(uintptr_t operation, const uintptr_t *arguments) {
    register uintptr_t a0 __asm__("a0") = operation;
    register const uintptr_t *a1 __asm__("a1") = arguments;
    __asm__ volatile(".option push\n\t.option norvc\n\t.balign 16\n\t"
                     "slli x0, x0, 0x1f\n\tebreak\n\tsrai x0, x0, 7\n\t.option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}

/* The host says how many bytes it has not written. */
static size_t offer(void *context, const void *bytes, size_t size) {
    const uintptr_t *file = context;
    const uintptr_t arguments[] = {*file, (uintptr_t)bytes, size};
    return size - host(SYS_WRITE, arguments);
}

static void is_worker(void *argument) {
    (void)argument;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        trace_sample_taken(turn, -(int32_t)turn);
        if (turn % 20u == 0u)
            task_delay(1); /* The ring has not room for everything. */
        else
            task_yield();
    }
}

/* Sends a session, of whose memory there is less than it records. */
static void session(struct kymo_sender *sender, const char *name) {
    int32_t error = kymo_send_open(sender);
    task_create(&first, "first", 4, is_worker, NULL);
    task_create(&second, "second", 4, is_worker, NULL);
    while (error >= 0 && (first.state != TASK_ENDED || second.state != TASK_ENDED)) {
        error = kymo_send(KYMO_TRACE, sender);
        task_delay(1);
    }
    if (error >= 0)
        error = kymo_send_finish(KYMO_TRACE, sender, NULL);
    const struct kymo_sent sent = kymo_sent(sender);
    print("%s: error %u, %u frames, %u bytes, %u dropped\n", name, (unsigned)-error,
          (unsigned)sent.frames, (unsigned)sent.bytes, (unsigned)sent.dropped_frames);
}

void app(void) {
    static const char name[] = "kymo.frames";
    const uintptr_t opened[] = {(uintptr_t)name, WRITE_BYTES, sizeof name - 1};
    uintptr_t file = host(SYS_OPEN, opened);
    struct kymo_sender over_file = {
        .context = &file, .offer = offer, .buffer = buffer, .buffer_size = sizeof buffer};
    session(&over_file, "file");
    host(SYS_CLOSE, &file);

    tracing_start();
    struct kymo_sender over_rtt = {.rtt = &rtt, .buffer = buffer, .buffer_size = sizeof buffer};
    session(&over_rtt, "rtt");
}
