/* The counters of each hart, in machine mode: cycles, and instructions. */
#include "kernel.h"
#include "kymo.h"

#define CYCLE 0u
#define INSTRET 2u

static uint64_t counters(const struct kymo_counted *event) {
    if (event->kind != KYMO_COUNTED_HARDWARE || event->exclude != 0)
        return 0;
    return event->number == KYMO_HARDWARE_CYCLES         ? 1u << CYCLE
           : event->number == KYMO_HARDWARE_INSTRUCTIONS ? 1u << INSTRET
                                                         : 0;
}

static uint32_t width(uint32_t counter) {
    (void)counter;
    return 64;
}

static uint64_t read_counter(uint32_t counter) {
    uint64_t value;
    if (counter == CYCLE)
        __asm__ volatile("csrr %0, mcycle" : "=r"(value));
    else
        __asm__ volatile("csrr %0, minstret" : "=r"(value));
    return value;
}

static bool program(uint32_t counter, const struct kymo_counted *event, uint64_t value) {
    (void)event; /* each counter counts one */
    if (counter == CYCLE)
        __asm__ volatile("csrw mcycle, %0" : : "r"(value));
    else
        __asm__ volatile("csrw minstret, %0" : : "r"(value));
    return true;
}

static void start(uint64_t which) { __asm__ volatile("csrc mcountinhibit, %0" : : "r"(which)); }
static void stop(uint64_t which) { __asm__ volatile("csrs mcountinhibit, %0" : : "r"(which)); }

const struct kymo_pmu hart_pmu = {
    2, counters, width, program, read_counter, start, stop};
