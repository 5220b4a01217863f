/*
 * Records events with LTTng-UST, from two threads pinned to two CPUs.
 *
 *     record pair|mixed|kinds COUNT
 *
 * On an error, prints it to stderr and exits with 1.
 */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_events.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { PAIR, MIXED, KINDS };

struct work {
	enum kind kind;
	unsigned long count;
	int thread;
	int failed;
};

/* The n-th CPU that this process may use. */
static int pin(int number)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all) != 0)
		return -1;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && number-- == 0) {
			CPU_SET(cpu, &one);
			return sched_setaffinity(0, sizeof(one), &one);
		}
	}
	return -1;
}

static void *run(void *pointer)
{
	static const char *const texts[] = {
		"a line of a log, and not a short one",
		"another line of about that length...",
		"the third has a number in it: 424242",
	};
	static const uint8_t bytes[] = {0, 1, 0xfe, 0xff, 5, 6, 7, 8};
	struct work *work = pointer;
	uint16_t values[16] = {0};

	work->failed = pin(work->thread);
	for (unsigned long n = 0; work->failed == 0 && n < work->count; n++) {
		values[n % 16] = (uint16_t)n;
		switch (work->kind) {
		case PAIR:
			lttng_ust_tracepoint(kymo_ctf, pair, (uint32_t)n, (uint32_t)work->thread);
			break;
		case MIXED:
			lttng_ust_tracepoint(kymo_ctf, mixed, n, work->thread, (int)(n % 12), texts[n % 3], (uint32_t)(n % 1000), values);
			break;
		case KINDS:
			lttng_ust_tracepoint(kymo_ctf, kinds, n, texts[n % 3], bytes, 1 + n % 8, 0.25 * (double)n - 3);
			if (n % 3 == 0)
				lttng_ust_tracepoint(kymo_ctf, nothing);
			break;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct work work[2] = {{0}};
	pthread_t threads[2];
	enum kind kind;

	if (argc != 3) {
		fprintf(stderr, "usage: record pair|mixed|kinds COUNT\n");
		return 1;
	}
	kind = strcmp(argv[1], "pair") == 0 ? PAIR : strcmp(argv[1], "mixed") == 0 ? MIXED : KINDS;
	for (int i = 0; i < 2; i++) {
		work[i].kind = kind;
		work[i].count = strtoul(argv[2], NULL, 10) / 2;
		work[i].thread = i;
		if (pthread_create(&threads[i], NULL, run, &work[i]) != 0) {
			fprintf(stderr, "record: a thread cannot be started\n");
			return 1;
		}
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (work[0].failed || work[1].failed) {
		fprintf(stderr, "record: a thread cannot be pinned to a CPU of its own\n");
		return 1;
	}
	return 0;
}
