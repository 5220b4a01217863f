/* What Kymo needs of this kernel. */
#include "apps/app.h"
#include "events.h"
#include "rtos.h"

KYMO_MEMORY(1, TRACE_MEMORY)
KYMO_EVENT_TABLE(own_events, OWN_EVENTS)

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

void tracing_start(void) {
    struct kymo_config config = {
        .flags = TRACE_FLAGS,
        .packets = TRACE_PACKETS,
        .packet_size = TRACE_PACKET_SIZE,
        .seed = clock_now(),
        .dump_state = dump_state,
    };
    KYMO_OWN(config, own_events);
    int32_t channels = kymo_start(KYMO_TRACE, &config);
    if (channels < 0 && channels != -KYMO_EOPNOTSUPP) {
        print("firmware: tracing does not start: error %u\n", (unsigned)-channels);
        machine_exit(1);
    }
}

void tracing_stop(void) { kymo_stop(KYMO_TRACE); }
