/* What Kymo needs of this kernel. */
#include "counters.h"
#include "kernel.h"

#define PACKETS 64
#define SAMPLES_PACKETS 32
#define PACKET_SIZE 2048

KYMO_MEMORY_COUNTING(HARTS, KYMO_REGION_SIZE(HARTS, PACKETS, PACKET_SIZE) +
                                HARTS * SAMPLES_PACKETS * PACKET_SIZE)
KYMO_SAMPLER(sampler, HARTS)
KYMO_COUNTER_TABLE(counters, SMP_COUNTERS)
extern const struct kymo_pmu hart_pmu;
KYMO_COUNTING(counting, HARTS, &hart_pmu)

uint64_t kymo_port_clock(void) { return clock_now(); }
uint64_t kymo_port_frequency(void) { return CLOCK_FREQUENCY; }
uint32_t kymo_port_cpu(void) { return (uint32_t)(this_hart() - harts); }
uintptr_t kymo_port_mask(void) { return interrupts_mask(); }
void kymo_port_unmask(uintptr_t saved) { interrupts_restore(saved); }

static void dump_state(void) {
    kymo_irq_name(3, "another hart", KYMO_TO_NUL);
    kymo_irq_name(7, "timer", KYMO_TO_NUL);
    kymo_syscall_name(SYSCALL_EXIT, "exit", KYMO_TO_NUL);
    kymo_syscall_name(SYSCALL_SLEEP, "sleep", KYMO_TO_NUL);
    kymo_syscall_name(SYSCALL_SUM, "sum", KYMO_TO_NUL);
    for (const struct thread *thread = all_threads; thread != NULL; thread = thread->all)
        kymo_thread_name(thread->id, thread->name, KYMO_TO_NUL);
}

/* The stack of the program that runs here. */
static bool program_stack(uintptr_t address, struct kymo_window *found) {
    const struct thread *thread = this_hart()->running;
    const uintptr_t begin = (uintptr_t)thread->program_stack;
    *found = (struct kymo_window){begin, begin + sizeof thread->program_stack, NULL};
    return address >= found->begin && address < found->end;
}

/* Where the timer's interrupt has found this hart. */
void take_sample(const struct hart *hart, const struct trap_frame *frame, uint32_t missed) {
    extern const char text_begin[], text_end[], program_text_begin[], program_text_end[];
    const struct thread *thread = hart->running;
    const bool in_program = (frame->status & 0x1800u) == 0;
    const struct trap_frame *entry = thread->entry;
    const struct kymo_sample sample = {
        .ip = frame->pc,
        .fp = frame->x[FP],
        .link = frame->x[RA],
        .tid = thread->id,
        .mode = in_program                       ? KYMO_CPU_MODE_USER
                : thread->id == KYMO_TID_IDLE ? KYMO_CPU_MODE_IDLE
                                                 : KYMO_CPU_MODE_KERNEL,
        .missed = missed,
        .has_program = !in_program && entry != NULL,
        .text = {(uintptr_t)text_begin, (uintptr_t)text_end},
        .stacks = {{(uintptr_t)thread->stack, (uintptr_t)&thread->stack[STACK_WORDS], NULL}},
        .program_ip = entry != NULL ? entry->pc : 0,
        .program_fp = entry != NULL ? entry->x[FP] : 0,
        .program_text = {(uintptr_t)program_text_begin, (uintptr_t)program_text_end},
        .program_stack = program_stack,
    };
    kymo_sample(&sample);
}

void tracing_start(void) {
    const struct kymo_config config = {
        .flags = KYMO_HOST_READS,
        .samples_packets = SAMPLES_PACKETS,
        .seed = clock_now(),
        .dump_state = dump_state,
        .synchronize = harts_synchronize,
        .sample_period = CLOCK_FREQUENCY / 5000u,
        .sampler = &sampler,
        .counters = &counters,
        .counters_period = CLOCK_FREQUENCY / 100u,
        .counting = &counting,
        .counting_groups = "cycles+instructions+context-switches",
        .counting_ns = 10000000u,
        .counting_notice = harts_count,
    };
    if (kymo_start(KYMO_TRACE, &config) < 0 || kymo_start(KYMO_SAMPLE, &config) < 0 ||
        kymo_start(KYMO_COUNT, &config) < 0)
        print("kernel: recording does not start\n");
}

void tracing_stop(void) {
    kymo_stop(KYMO_COUNT);
    kymo_stop(KYMO_SAMPLE);
    kymo_stop(KYMO_TRACE);
}
