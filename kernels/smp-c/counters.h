/* What every hart counts, recorded or not. */
#ifndef COUNTERS_H
#define COUNTERS_H
#include "kymo.h"

#define SMP_COUNTERS(COUNTER, GAUGE, HISTOGRAM)                                   \
    COUNTER(switches, switches)                                                   \
    HISTOGRAM(call_time, ticks)
KYMO_COUNTERS(SMP_COUNTERS)

#endif
