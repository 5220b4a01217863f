/* What Kymo needs of this kernel. */
#include "apps/app.h"
#include "events.h"
#include "rtos.h"

KYMO_MEMORY(1, TRACE_MEMORY)
KYMO_EVENT_TABLE(own_events, OWN_EVENTS)
KYMO_SAMPLER(sampler, 1)

uint64_t kymo_port_clock(void) { return clock_now(); }
uint64_t kymo_port_frequency(void) { return CLOCK_FREQUENCY; }
uint32_t kymo_port_cpu(void) { return 0; }
uintptr_t kymo_port_mask(void) { return interrupts_mask(); }
void kymo_port_unmask(uintptr_t saved) { interrupts_restore(saved); }

static void dump_state(void) {
    kymo_irq_name(7, "timer", KYMO_TO_NUL);
    for (const struct task *task = all_tasks; task != NULL; task = task->all)
        kymo_thread_state(task->id, 0, (int16_t)task->priority, trace_state(task), 0, task->name,
                          KYMO_TO_NUL);
}

/* Where the timer's interrupt has found the processor. */
void take_sample(uintptr_t pc, uintptr_t fp, uintptr_t ra, uint32_t missed) {
    extern const char text_begin[], text_end[];
    const struct task *task = running;
    const struct kymo_sample sample = {
        .ip = pc,
        .fp = fp,
        .link = ra,
        .tid = task->id,
        .mode = task->id == KYMO_TID_IDLE ? KYMO_CPU_MODE_IDLE : KYMO_CPU_MODE_KERNEL,
        .missed = missed,
        .text = {(uintptr_t)text_begin, (uintptr_t)text_end},
        .stacks = {{(uintptr_t)task->stack, (uintptr_t)(task->stack + STACK_WORDS), NULL}},
    };
    kymo_sample(&sample);
}

static void start(enum kymo_mode mode, const struct kymo_config *config) {
    int32_t channels = kymo_start(mode, config);
    if (channels < 0 && channels != -KYMO_EOPNOTSUPP) {
        print("firmware: recording does not start: error %u\n", (unsigned)-channels);
        machine_exit(1);
    }
}

void tracing_start(void) {
    struct kymo_config config = {
        .flags = TRACE_FLAGS,
        .packets = TRACE_PACKETS,
        .packet_size = TRACE_PACKET_SIZE,
        .seed = clock_now(),
        .dump_state = dump_state,
        .samples_packets = TRACE_SAMPLES,
        .sample_period = TRACE_PERIOD,
        .sampler = &sampler,
        .sampling = sampling_changed,
    };
    KYMO_OWN(config, own_events);
    start(KYMO_TRACE, &config);
    if (TRACE_SAMPLES > 0)
        start(KYMO_SAMPLE, &config);
}

void tracing_stop(void) {
    kymo_stop(KYMO_SAMPLE);
    kymo_stop(KYMO_TRACE);
}
