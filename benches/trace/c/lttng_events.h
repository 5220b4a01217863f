/* LTTng-UST's declarations of the events. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER kymo_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_events.h"

#if !defined(KYMO_BENCH_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define KYMO_BENCH_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	kymo_bench, pair,
	LTTNG_UST_TP_ARGS(uint32_t, a, uint32_t, b),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, a, a) lttng_ust_field_integer(uint32_t, b, b))
)

/* Never enabled. */
LTTNG_UST_TRACEPOINT_EVENT(
	kymo_bench, off,
	LTTNG_UST_TP_ARGS(uint32_t, a, uint32_t, b),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, a, a) lttng_ust_field_integer(uint32_t, b, b))
)

#endif

#include <lttng/tracepoint-event.h>
