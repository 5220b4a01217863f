/* LTTng-UST's tracepoints. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_events.h"

__attribute__((noinline)) void peer_lttng_record(uint32_t a, uint32_t b)
{
	lttng_ust_tracepoint(kymo_bench, pair, a, b);
}

__attribute__((noinline)) void peer_lttng_off(uint32_t a, uint32_t b)
{
	lttng_ust_tracepoint(kymo_bench, off, a, b);
}

/* Whether the session daemon has enabled the event. */
int peer_lttng_is_on(void)
{
	return lttng_ust_tracepoint_enabled(kymo_bench, pair) != 0;
}
