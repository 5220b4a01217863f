/* A kernel that only records: a host reads the memory. How much of the library that links is
   counted; nobody runs it. */
#include "kymo.h"

KYMO_MEMORY(1, 16384)

uint64_t kymo_port_clock(void) { return 0; }
uint64_t kymo_port_frequency(void) { return 1000000; }
uint32_t kymo_port_cpu(void) { return 0; }
uintptr_t kymo_port_mask(void) { return 0; }
void kymo_port_unmask(uintptr_t saved) { (void)saved; }

int main(void) {
    static const struct kymo_config config = {.flags = KYMO_ROLLING};
    if (kymo_start(KYMO_TRACE, &config) < 0)
        return 1;
    kymo_thread_name(1, "one", KYMO_TO_NUL);
    kymo_sched_switch(0, 1, KYMO_THREAD_STATE_RUNNABLE, KYMO_SWITCH_REASON_EXPIRED, 0);
    return 0;
}
