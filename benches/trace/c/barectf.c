/*
 * barectf's tracer over a ring of packets of our own: a flight recorder, as all others here. The generated code is included and not linked, so that the
 * compiler can inline it.
 */
#include "peer_.c"

#include <stdlib.h>
#include <x86intrin.h>

#define THREADS 2

struct ring {
	struct peer__ring_ctx ctx;
	uint8_t *packets;
	uint64_t number;
} __attribute__((aligned(128)));

/* By thread: the enabled stream and the disabled one. */
static struct ring rings[THREADS][2];
static __thread struct ring *on, *off;

static uint64_t clock_value(void *data)
{
	(void)data;
	return __rdtsc();
}

static int never_full(void *data)
{
	(void)data;
	return 0;
}

static void open_packet(void *data)
{
	struct ring *ring = data;

	peer__packet_set_buf(&ring->ctx, ring->packets + ring->number % PACKETS * PACKET_SIZE, PACKET_SIZE);
	peer__ring_open_packet(&ring->ctx);
}

static void close_packet(void *data)
{
	struct ring *ring = data;

	peer__ring_close_packet(&ring->ctx);
	ring->number++;
}

static const struct peer__platform_callbacks callbacks = {
	.tsc_clock_get_value = clock_value,
	.is_backend_full = never_full,
	.open_packet = open_packet,
	.close_packet = close_packet,
};

/* Returns 0, or -1 without memory. */
int peer_barectf_enter(int thread)
{
	for (int which = 0; which < 2; which++) {
		struct ring *ring = &rings[thread][which];

		ring->packets = aligned_alloc(PACKET_SIZE, PACKETS * PACKET_SIZE);
		if (!ring->packets)
			return -1;
		peer__init(&ring->ctx, ring->packets, PACKET_SIZE, callbacks, ring);
		open_packet(ring);
	}
	on = &rings[thread][0];
	off = &rings[thread][1];
	peer__enable_tracing(&off->ctx, 0);
	return 0;
}

__attribute__((noinline)) void peer_barectf_record(uint32_t a, uint32_t b)
{
	peer__ring_trace_pair(&on->ctx, a, b);
}

__attribute__((noinline)) void peer_barectf_off(uint32_t a, uint32_t b)
{
	peer__ring_trace_pair(&off->ctx, a, b);
}

/* Closes the open packet. Returns how many packets were ever closed; those that the ring still holds are the last PACKETS of them. */
uint64_t peer_barectf_close(int thread)
{
	struct ring *ring = &rings[thread][0];

	if (peer__packet_is_open(&ring->ctx))
		close_packet(ring);
	return ring->number;
}

/* The bytes of one packet. */
const uint8_t *peer_barectf_packet(int thread, uint64_t number)
{
	return rings[thread][0].packets + number % PACKETS * PACKET_SIZE;
}
