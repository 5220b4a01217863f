/* A kernel in C for 32-bit x86, one processor: threads that the timer switches, on QEMU's `pc`. It
 * records switches, interrupts and samples, and prints at its end what it counted itself. */
#include "kymo.h"

#define THREADS 3u
#define STACK_WORDS 1024
#define TICKS_A_SECOND 1000u
#define TURNS 1000u

struct thread {
    uintptr_t *sp; /* where switch_stacks left the registers */
    const char *name;
    bool has_ended;
    KYMO_ALIGNED(16) uintptr_t stack[STACK_WORDS];
};

/* What timer_entry has saved, and the processor. */
struct frame {
    uint32_t edi, esi, ebp, esp, ebx, edx, ecx, eax, eip, cs, eflags;
};

void switch_stacks(uintptr_t **from, uintptr_t *to);
void thread_begin(void);
void timer_entry(void);

/* Thread 0 is idle, and runs on the stack of the boot. */
static struct thread threads[THREADS + 1] = {{.name = "idle"}};
static uint32_t running, switches, interrupts, samples, hertz;
static uint64_t next_sample;

/* ---- The processor and the board ---- */

static void out8(uint16_t port, uint8_t value) {
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}
static uint8_t in8(uint16_t port) {
    uint8_t value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static void print(const char *text) {
    for (; *text != '\0'; text++)
        out8(0x3f8, (uint8_t)*text);
}
static void print_number(uint32_t number) {
    char digits[12];
    uint32_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    print(&digits[at]);
}

_Noreturn static void power_off(void) {
    __asm__ volatile("outw %0, %1" : : "a"((uint16_t)0x2000), "Nd"((uint16_t)0x604));
    for (;;)
        ;
}

/* Ticks of the time-stamp counter in 10 ms of the interval timer's second channel. */
static uint32_t measure_hertz(void) {
    out8(0x61, (uint8_t)((in8(0x61) & ~2u) | 1u));
    out8(0x43, 0xb0);
    out8(0x42, 11932 & 0xff);
    out8(0x42, 11932 >> 8);
    const uint64_t begin = kymo_port_clock();
    while ((in8(0x61) & 0x20u) == 0)
        ;
    return (uint32_t)(kymo_port_clock() - begin) * 100u;
}

static void timer_start(void) {
    static struct {
        uint16_t low, selector, flags, high;
    } gates[33];
    static KYMO_ALIGNED(4) struct {
        uint16_t padding, limit;
        const void *gates;
    } table;
    const uintptr_t entry = (uintptr_t)timer_entry;
    gates[32].low = (uint16_t)entry;
    gates[32].selector = 8;
    gates[32].flags = 0x8e00;
    gates[32].high = (uint16_t)(entry >> 16);
    table.limit = sizeof gates - 1;
    table.gates = gates;
    __asm__ volatile("lidt %0" : : "m"(table.limit), "m"(table));
    /* Both interrupt controllers: lines from 32 on, and only line 0 is open. */
    static const uint8_t words[][4] = {{0x11, 32, 4, 1}, {0x11, 40, 2, 1}};
    for (uint16_t chip = 0; chip < 2; chip++) {
        const uint16_t port = chip == 0 ? 0x20 : 0xa0;
        out8(port, words[chip][0]);
        for (uint32_t word = 1; word < 4; word++)
            out8((uint16_t)(port + 1), words[chip][word]);
        out8((uint16_t)(port + 1), chip == 0 ? 0xfe : 0xff);
    }
    out8(0x43, 0x34);
    out8(0x40, (uint8_t)(1193182u / TICKS_A_SECOND));
    out8(0x40, (uint8_t)(1193182u / TICKS_A_SECOND >> 8));
}

/* ---- What Kymo needs ---- */

KYMO_MEMORY(1, KYMO_REGION_SIZE(1, 64, 2048) + 16 * 2048)
KYMO_SAMPLER(sampler, 1)

uint64_t kymo_port_clock(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
uint64_t kymo_port_frequency(void) { return hertz; }
uint32_t kymo_port_cpu(void) { return 0; }
uintptr_t kymo_port_mask(void) {
    uintptr_t saved;
    __asm__ volatile("pushf\n\tpop %0\n\tcli" : "=r"(saved) : : "memory");
    return saved;
}
void kymo_port_unmask(uintptr_t saved) {
    __asm__ volatile("push %0\n\tpopf" : : "r"(saved) : "memory", "cc");
}

static void dump_state(void) {
    kymo_irq_name(0, "timer", KYMO_TO_NUL);
    for (uint32_t id = 1; id <= THREADS; id++)
        kymo_thread_name(id, threads[id].name, KYMO_TO_NUL);
}

static void take_sample(const struct frame *frame) {
    extern const char text_begin[], text_end[];
    const struct thread *thread = &threads[running];
    const struct kymo_sample sample = {
        .ip = frame->eip,
        .fp = frame->ebp,
        .tid = running,
        .mode = running == KYMO_TID_IDLE ? KYMO_CPU_MODE_IDLE : KYMO_CPU_MODE_KERNEL,
        .text = {(uintptr_t)text_begin, (uintptr_t)text_end},
        .stacks = {{(uintptr_t)thread->stack, (uintptr_t)&thread->stack[STACK_WORDS], NULL}},
    };
    samples += kymo_sample(&sample);
}

/* ---- Threads ---- */

static void switch_to(uint32_t next, enum kymo_thread_state state,
                      enum kymo_switch_reason reason) {
    const uint32_t before = running;
    running = next;
    switches++;
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

void thread_exit(void);
void thread_exit(void) {
    __asm__ volatile("cli");
    threads[running].has_ended = true;
    kymo_thread_exit_masked(running, 0, KYMO_THREAD_STATE_RUNNABLE);
    switch_to(next_thread(), KYMO_THREAD_STATE_ENDED, KYMO_SWITCH_REASON_ENDED);
}

void timer_interrupt(const struct frame *frame);
void timer_interrupt(const struct frame *frame) {
    interrupts++;
    kymo_irq_handler_entry_masked(0);
    if (kymo_sample_period() > 0 && kymo_port_clock() >= next_sample) {
        take_sample(frame);
        next_sample = kymo_port_clock() + kymo_sample_next();
    }
    out8(0x20, 0x20);
    kymo_irq_handler_exit_masked(0);
    const uint32_t next = next_thread();
    if (next != running && !(running == 0 && next == 0))
        switch_to(next, KYMO_THREAD_STATE_RUNNABLE,
                  running == 0 ? KYMO_SWITCH_REASON_IDLE : KYMO_SWITCH_REASON_EXPIRED);
}

/* ---- What it does ---- */

__attribute__((noinline)) static void work(void) {
    for (volatile uint32_t i = 0; i < 20000; i++)
        ;
}
__attribute__((noinline)) static void more_work(void) {
    work();
    work();
    __asm__ volatile(""); /* No jump instead of the last call. */
}
static void is_light(void) {
    for (uint32_t turn = 0; turn < TURNS; turn++)
        work();
}
static void is_heavy(void) {
    for (uint32_t turn = 0; turn < TURNS; turn++)
        more_work();
}

static void thread_create(uint32_t id, const char *name, void (*code)(void)) {
    uintptr_t *sp = &threads[id].stack[STACK_WORDS - 8];
    sp[1] = (uintptr_t)code; /* esi */
    sp[4] = (uintptr_t)thread_begin;
    threads[id].sp = sp;
    threads[id].name = name;
}

_Noreturn void main(void);
_Noreturn void main(void) {
    hertz = measure_hertz();
    thread_create(1, "light", is_light);
    thread_create(2, "heavy", is_heavy);
    thread_create(3, "light too", is_light);
    static struct kymo_config config = {
        .flags = KYMO_HOST_READS, .samples_packets = 16, .dump_state = dump_state,
        .sampler = &sampler};
    config.sample_period = hertz / 500u;
    config.seed = kymo_port_clock();
    if (kymo_start(KYMO_TRACE, &config) < 0 || kymo_start(KYMO_SAMPLE, &config) < 0) {
        print("kernel: recording does not start\n");
        power_off();
    }
    timer_start();
    uint32_t left = THREADS;
    while (left > 0) {
        __asm__ volatile("sti\n\thlt\n\tcli");
        left = 0;
        for (uint32_t id = 1; id <= THREADS; id++)
            left += !threads[id].has_ended;
    }
    kymo_stop(KYMO_SAMPLE);
    kymo_stop(KYMO_TRACE);
    print_number(switches);
    print(" switches, ");
    print_number(interrupts);
    print(" interrupts, ");
    print_number(samples);
    print(" samples\n");
    power_off();
}
