/*
 * Writes two streams with the tracer that barectf generated from trace.yaml.
 *
 *     record DIRECTORY
 */
#include "kt_.h"

#include <stdio.h>
#include <stdlib.h>

#define PACKET_SIZE 512

/* The tracer's platform for one stream. */
struct stream {
	union {
		struct kt__bits_ctx bits;
		struct kt__plain_ctx plain;
	} ctx;
	int is_plain;
	FILE *file;
	uint8_t packet[PACKET_SIZE];
	/* Requests to open a packet. Events whose packet cannot be opened are discarded. */
	unsigned long asked;
};

static uint64_t now = 1000;

static uint64_t ticks(void *data)
{
	(void)data;
	return now;
}

/* Refuses every seventh packet. */
static int is_full(void *data)
{
	struct stream *stream = data;

	return ++stream->asked % 7 == 0;
}

static void open_packet(void *data)
{
	struct stream *stream = data;

	if (stream->is_plain)
		kt__plain_open_packet(&stream->ctx.plain);
	else
		kt__bits_open_packet(&stream->ctx.bits, stream->asked % 8);
}

static void close_packet(void *data)
{
	struct stream *stream = data;

	if (stream->is_plain)
		kt__plain_close_packet(&stream->ctx.plain);
	else
		kt__bits_close_packet(&stream->ctx.bits);
	if (fwrite(stream->packet, PACKET_SIZE, 1, stream->file) != 1) {
		perror("record");
		exit(1);
	}
}

static const struct kt__platform_callbacks callbacks = {
	.ticks_clock_get_value = ticks,
	.is_backend_full = is_full,
	.open_packet = open_packet,
	.close_packet = close_packet,
};

static void start(struct stream *stream, const char *directory, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	stream->file = fopen(path, "wb");
	if (!stream->file) {
		perror(path);
		exit(1);
	}
	kt__init(&stream->ctx, stream->packet, PACKET_SIZE, callbacks, stream);
	open_packet(stream);
}

static void finish(struct stream *stream, int is_open)
{
	if (is_open)
		close_packet(stream);
	if (fclose(stream->file) != 0) {
		perror("record");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static const char *const texts[] = {"a", "some text", "text of another length, h\xc3\xa9"};
	static struct stream bits, plain = {.is_plain = 1};

	if (argc != 2) {
		fprintf(stderr, "usage: record DIRECTORY\n");
		return 1;
	}
	start(&bits, argv[1], "bits");
	start(&plain, argv[1], "plain");
	for (int n = 0; n < 1000; n++) {
		const int16_t fixed[3] = {(int16_t)(n % 4096), (int16_t)(-n % 4096), -1};
		const uint16_t pairs[2][2] = {{1, 2}, {(uint16_t)n, 65535}};
		const uint16_t *const grid[2] = {pairs[0], pairs[1]};
		const uint8_t many[7] = {0, 1, 2, 3, 4, 5, 6};
		const int16_t signs[3][2] = {{1, -1}, {4095, -4096}, {(int16_t)(n % 100), 7}};
		const int16_t *const rows[3] = {signs[0], signs[1], signs[2]};
		const uint8_t depth = (uint8_t)(n % 32);

		now += (uint64_t)n % 50;
		kt__bits_trace_packed(&bits.ctx.bits, depth, (uint8_t)(n % 8), (int16_t)(n * 4 - 2000), n % 2 ? -1 : 0,
				      (uint64_t)n * 0x0123456789abcdefULL, (int64_t)n * -65537, (float)n / 4, -(double)n / 8,
				      (uint8_t)(n % 64), (int16_t)(n % 1200 - 1000), texts[n % 3], (uint8_t)(n % 7));
		if (n % 3 == 0)
			kt__bits_trace_arrays(&bits.ctx.bits, depth, texts[n % 2], fixed, grid, (uint32_t)(n % 8), many,
					      (uint32_t)(n % 4), rows, (uint32_t)(n % 3), texts);
		if (n % 5 == 0)
			kt__bits_trace_nothing(&bits.ctx.bits, depth);
		kt__plain_trace_tick(&plain.ctx.plain, (uint8_t)n);
	}
	finish(&bits, kt__packet_is_open(&bits));
	finish(&plain, kt__packet_is_open(&plain));
	return 0;
}
