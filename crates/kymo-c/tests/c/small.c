/* The configuration of the book for a machine with 16 KiB for traces. */
#include "one_cpu.h"

KYMO_MEMORY(1, 16384)

int main(void) {
    static const uint16_t events[] = {KYMO_ID_SCHED_SWITCH, KYMO_ID_IRQ_HANDLER_ENTRY,
                                      KYMO_ID_IRQ_HANDLER_EXIT, KYMO_ID_THREAD_NAME};
    struct kymo_config config = {0};
    config.packet_size = 256;
    /* All events are too many. */
    if (kymo_start(KYMO_TRACE, &config) != -KYMO_ENOMEM || kymo_memory_needed() <= 16384)
        return 1;
    config.events = events;
    config.events_count = sizeof events / sizeof events[0];
    if (kymo_start(KYMO_TRACE, &config) != 3)
        return 2;
    uint64_t before = now;
    kymo_irq_handler_entry(1);
    kymo_sched_enter(); /* not asked for */
    if (now != before + 1)
        return 3;
    /* Each site chooses whether it masks interrupts. */
    masks = 0;
    kymo_irq_handler_entry_masked(1);
    if (masks != 0)
        return 4;
    kymo_irq_handler_entry(1);
    if (masks != 1)
        return 5;
    return kymo_finish(KYMO_TRACE, NULL) == 0 ? 0 : 6;
}
