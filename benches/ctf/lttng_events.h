/* LTTng-UST's declarations of the events for the reader's tests and benchmarks. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER kymo_ctf

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_events.h"

#if !defined(KYMO_CTF_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define KYMO_CTF_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* Two integers. */
LTTNG_UST_TRACEPOINT_EVENT(
	kymo_ctf, pair,
	LTTNG_UST_TP_ARGS(uint32_t, a, uint32_t, b),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, a, a) lttng_ust_field_integer(uint32_t, b, b))
)

LTTNG_UST_TRACEPOINT_ENUM(
	kymo_ctf, state,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("READY", 0)
		lttng_ust_field_enum_value("RUNNING", 1)
		lttng_ust_field_enum_range("WAITING", 2, 9)
		lttng_ust_field_enum_value("DONE", 10)
	)
)

/* About 100 bytes with its header: integers, an enumeration, a string, a float, an array. */
LTTNG_UST_TRACEPOINT_EVENT(
	kymo_ctf, mixed,
	LTTNG_UST_TP_ARGS(uint64_t, number, int32_t, tid, int, state, const char *, text, uint32_t, line, const uint16_t *, values),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, number, number)
		lttng_ust_field_integer(int32_t, tid, tid)
		lttng_ust_field_enum(kymo_ctf, state, uint8_t, state, state)
		lttng_ust_field_string(text, text)
		lttng_ust_field_integer(uint32_t, line, line)
		lttng_ust_field_float(double, load, (double)number / 4)
		lttng_ust_field_array(uint16_t, values, values, 16)
	)
)

/* Every kind of field of LTTng-UST. */
LTTNG_UST_TRACEPOINT_EVENT(
	kymo_ctf, kinds,
	LTTNG_UST_TP_ARGS(uint64_t, n, const char *, text, const uint8_t *, bytes, size_t, length, double, number),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int8_t, i8, (int8_t)n)
		lttng_ust_field_integer(int16_t, i16, (int16_t)(n * 257))
		lttng_ust_field_integer(int32_t, i32, (int32_t)(n * 65537))
		lttng_ust_field_integer(int64_t, i64, -(int64_t)n)
		lttng_ust_field_integer(uint8_t, u8, (uint8_t)n)
		lttng_ust_field_integer(uint64_t, u64, n * 0x123456789abcdefULL)
		lttng_ust_field_integer_hex(uint32_t, hex, (uint32_t)n)
		lttng_ust_field_integer_network(uint16_t, net16, (uint16_t)n)
		lttng_ust_field_integer_network_hex(uint32_t, net32, (uint32_t)n)
		lttng_ust_field_float(float, f32, (float)number)
		lttng_ust_field_float(double, f64, number)
		lttng_ust_field_string(text, text)
		lttng_ust_field_array(uint8_t, array, bytes, 4)
		lttng_ust_field_array_text(char, array_text, text, 8)
		lttng_ust_field_sequence(uint8_t, sequence, bytes, size_t, length)
		lttng_ust_field_sequence_text(char, sequence_text, text, size_t, length)
		lttng_ust_field_enum(kymo_ctf, state, int, state, (int)(n % 12))
	)
)

/* An event without fields. */
LTTNG_UST_TRACEPOINT_EVENT(kymo_ctf, nothing, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
