/* A kernel in C for one processor: threads that the timer switches. It records switches, interrupts,
 * samples, and who called for work; counts what the processor can count; and prints at its end what it
 * counted itself.
 * Each processor has a folder, with what machine.h declares. */
#include "machine.h"

#define THREADS 3u
#define STACK_WORDS 1024
#define TICKS_A_SECOND 1000u
#define TURNS 1000u
#define NMIS_A_SECOND 1700u
#define STEPS 20000u

#define STEP(FIELD) FIELD(u32, number)
#define MY_EVENTS(EVENT, BARE) EVENT(21, step, STEP) EVENT(22, done, STEP) EVENT(23, hit, STEP)
KYMO_EVENTS(MY_EVENTS)
KYMO_EVENT_TABLE(my_events, MY_EVENTS)

struct thread {
    uintptr_t *sp; /* where switch_stacks left the registers */
    const char *name;
    bool has_ended;
};

/* Thread 0 is idle, and runs on the stack of the boot; thread 1 has the first of these stacks. */
static struct thread threads[THREADS + 1] = {{.name = "idle"}};
static KYMO_ALIGNED(16) uintptr_t stacks[THREADS][STACK_WORDS];
static uint32_t running, switches, interrupts, nmis, samples, steps;
static uint32_t nested; /* NMIs that came while a step was recorded */
static volatile bool is_recording;
static uint64_t next_sample;

static void print(const char *text) {
    for (; *text != '\0'; text++)
        print_char(*text);
}
static void print_number(uint32_t number, const char *what) {
    char digits[12];
    uint32_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    print(&digits[at]);
    print(what);
}

void unexpected(void) {
    print("kernel: unexpected exception\n");
    power_off();
}

/* ---- What Kymo needs ---- */

KYMO_MEMORY(1, KYMO_REGION_SIZE(1, 512, 2048) + 32 * 2048)
static void here(struct kymo_sample *sample);
KYMO_SAMPLER_OF_EVENTS(sampler, 1, here)

uint32_t kymo_port_cpu(void) { return 0; }
static void dump_state(void) {
    kymo_irq_name(TIMER, "timer", KYMO_TO_NUL);
    if (HAS_NMI)
        kymo_irq_name(NMI, "NMI", KYMO_TO_NUL);
    for (uint32_t id = 1; id <= THREADS; id++)
        kymo_thread_name(id, threads[id].name, KYMO_TO_NUL);
}

/* The stack on which an address lies. */
static struct kymo_window stack_of(uintptr_t address) {
    extern const char stack_bottom[], stack_top[];
    for (uint32_t i = 0; i < THREADS; i++) {
        const uintptr_t begin = (uintptr_t)stacks[i], end = begin + sizeof stacks[i];
        if (address >= begin && address < end)
            return (struct kymo_window){begin, end, NULL};
    }
    return (struct kymo_window){(uintptr_t)stack_bottom, (uintptr_t)stack_top, NULL};
}

/* What runs, and where its callers are, for events that record them. */
static void here(struct kymo_sample *sample) {
    extern const char text_begin[], text_end[];
    sample->tid = running;
    sample->text[0] = (uintptr_t)text_begin;
    sample->text[1] = (uintptr_t)text_end;
    sample->stacks[0] = stack_of((uintptr_t)__builtin_frame_address(0));
}

/* An NMI may come while switch_to has changed `running`, and not yet the stack: `tid` is then the
 * thread that runs next. The stack is always the one on which the NMI has put its frame. */
static void take_sample(const struct frame *frame) {
    struct kymo_sample sample = {
        .ip = frame->ip,
        .fp = frame->fp,
        .mode = running == KYMO_TID_IDLE ? KYMO_CPU_MODE_IDLE : KYMO_CPU_MODE_KERNEL,
    };
    here(&sample);
    samples += kymo_sample(&sample);
}

/* ---- Threads ---- */

static void switch_to(uint32_t next, enum kymo_thread_state state,
                      enum kymo_switch_reason reason) {
    const uint32_t before = running;
    running = next;
    switches++;
    kymo_happened(KYMO_SOFTWARE_CONTEXT_SWITCHES, true);
    kymo_sched_switch_masked(before, next, state, reason, 0);
    switch_stacks(&threads[before].sp, threads[next].sp);
}

/* The next one that has not ended; 0 if all have. */
static uint32_t next_thread(void) {
    for (uint32_t step = 1; step <= THREADS; step++) {
        const uint32_t id = (running + step - 1) % THREADS + 1;
        if (!threads[id].has_ended)
            return id;
    }
    return 0;
}

void thread_exit(void) {
    kymo_port_mask();
    threads[running].has_ended = true;
    kymo_thread_exit_masked(running, 0, KYMO_THREAD_STATE_RUNNABLE);
    switch_to(next_thread(), KYMO_THREAD_STATE_ENDED, KYMO_SWITCH_REASON_ENDED);
}

/* A sample where one is due: by the timer, or by NMIs where there are some. */
static void look(const struct frame *frame) {
    if (kymo_sample_period() > 0 && kymo_port_clock() >= next_sample) {
        take_sample(frame);
        next_sample = kymo_port_clock() + kymo_sample_next();
    }
}

void timer_interrupt(const struct frame *frame) {
    interrupts++;
    kymo_counting_tick();
    kymo_irq_handler_entry_masked(TIMER);
    if (!HAS_NMI)
        look(frame);
    timer_done();
    kymo_irq_handler_exit_masked(TIMER);
    const uint32_t next = next_thread();
    if (next != running)
        switch_to(next, KYMO_THREAD_STATE_RUNNABLE,
                  running == 0 ? KYMO_SWITCH_REASON_IDLE : KYMO_SWITCH_REASON_EXPIRED);
}

/* It may come while a record is being made. */
void nmi(const struct frame *frame) {
    nmis++;
    nested += is_recording;
    kymo_irq_handler_entry_masked(NMI);
    if (nmis % 100 == 0)
        trace_hit_masked(nmis);
    look(frame);
    kymo_irq_handler_exit_masked(NMI);
}

/* ---- What it does ---- */

__attribute__((noinline)) static void work(uint32_t turn) {
    KEEP_FRAME();
    for (volatile uint32_t i = 0; i < 20000; i++)
        ;
    if (turn % 10 == 0)
        trace_done(turn);
}
__attribute__((noinline)) static void more_work(uint32_t turn) {
    work(turn);
    work(turn);
    __asm__ volatile(""); /* No jump instead of the last call. */
}
static void is_light(void) {
    for (uint32_t turn = 0; turn < TURNS; turn++)
        work(turn);
}
static void is_heavy(void) {
    for (uint32_t turn = 0; turn < TURNS; turn++)
        more_work(turn);
}

/* Records so often, and has so many NMIs, that many come while a record is being made. */
static void record_under_nmis(void) {
    nmi_start(50 * NMIS_A_SECOND);
    for (; HAS_NMI && steps < STEPS; steps++) {
        is_recording = true;
        trace_step_masked(steps);
        is_recording = false;
    }
}

static void thread_create(uint32_t id, const char *name, void (*code)(void)) {
    uintptr_t *sp = &stacks[id - 1][STACK_WORDS - SAVED];
    sp[CODE] = (uintptr_t)code;
    sp[RETURN] = (uintptr_t)thread_begin;
    threads[id].sp = sp;
    threads[id].name = name;
}

_Noreturn void main(void) {
    machine_start();
    thread_create(1, "light", is_light);
    thread_create(2, "heavy", is_heavy);
    thread_create(3, "light too", is_light);
    static struct kymo_config config = {
        .flags = KYMO_HOST_READS, .samples_packets = 32, .dump_state = dump_state,
        .sampler = &sampler, .counting_groups = "cycles+instructions+context-switches",
        .sample_driver = HAS_NMI ? KYMO_SAMPLING_DRIVER_NMI : KYMO_SAMPLING_DRIVER_TIMER};
    config.sample_period = kymo_port_frequency() / 500u;
    config.seed = kymo_port_clock();
    config.counting = machine_counters();
    KYMO_OWN(config, my_events);
    if (kymo_start(KYMO_TRACE, &config) < 0 || kymo_start(KYMO_SAMPLE, &config) < 0) {
        print("kernel: recording does not start\n");
        power_off();
    }
    const bool counts = config.counting != NULL && kymo_start(KYMO_COUNT, &config) >= 0;
    if (config.counting != NULL && !counts)
        print("kernel: this machine does not count\n");
    if (kymo_switch_stacks(KYMO_TRACE, 22, true) < 0 ||
        kymo_switch_stacks(KYMO_TRACE, 23, true) < 0 ||
        (counts && kymo_switch_counts(KYMO_COUNT, 22, true) < 0)) {
        print("kernel: events have no callers or counts\n");
        power_off();
    }
    timer_start(TICKS_A_SECOND);
    nmi_start(NMIS_A_SECOND);
    uint32_t left = THREADS;
    while (left > 0) {
        wait_for_interrupts();
        left = 0;
        for (uint32_t id = 1; id <= THREADS; id++)
            left += !threads[id].has_ended;
    }
    record_under_nmis();
    nmi_start(0);
    if (counts)
        kymo_stop(KYMO_COUNT);
    kymo_stop(KYMO_SAMPLE);
    kymo_stop(KYMO_TRACE);
    print_number(switches, " switches, ");
    print_number(interrupts, " interrupts, ");
    print_number(nmis, " nmis, ");
    print_number(samples, " samples, ");
    print_number(steps, " steps, ");
    print_number(nested, " nested\n");
    power_off();
}
