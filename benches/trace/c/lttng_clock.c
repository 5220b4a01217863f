/* A clock for LTTng-UST: the time stamp counter, like the other peers'. Loaded by the session daemon's consumers too. */
#include <lttng/ust-clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

static uint64_t read64(void)
{
	return __rdtsc();
}

/* Only used to print times. */
static uint64_t frequency(void)
{
	return 1000000000;
}

static int uuid(char *text)
{
	memcpy(text, "7d1f2f9e-6a0b-4f0e-9d39-4b794d4f5453", LTTNG_UST_UUID_STR_LEN);
	return 0;
}

static const char *name(void)
{
	return "tsc";
}

static const char *description(void)
{
	return "time stamp counter";
}

void lttng_ust_clock_plugin_init(void);
void lttng_ust_clock_plugin_init(void)
{
	if (lttng_ust_trace_clock_set_read64_cb(read64) || lttng_ust_trace_clock_set_freq_cb(frequency)
	    || lttng_ust_trace_clock_set_uuid_cb(uuid) || lttng_ust_trace_clock_set_name_cb(name)
	    || lttng_ust_trace_clock_set_description_cb(description) || lttng_ust_enable_trace_clock_override()) {
		fprintf(stderr, "LTTng-UST refuses the clock of this benchmark.\n");
		exit(EXIT_FAILURE);
	}
}
