/* An application: what it does, and how it is traced. */
#ifndef APP_H
#define APP_H

void app(void);

#ifdef TRACE_SCHED
/* A flight recorder, so small that a flood of events overwrites what was before. */
#define TRACE_FLAGS KYMO_ROLLING
#define TRACE_PACKETS 8
#define TRACE_PACKET_SIZE 512
#elif defined(TRACE_SEND)
/* The firmware sends what is recorded. */
#define TRACE_FLAGS 0
#define TRACE_PACKETS 32
#define TRACE_PACKET_SIZE 512
#else
/* The host takes what is recorded while the firmware runs. */
#define TRACE_FLAGS KYMO_HOST_READS
#define TRACE_PACKETS 64
#define TRACE_PACKET_SIZE 1024
#endif
#ifdef TRACE_SAMPLES
/* Every 100 us, where the time goes. */
#define TRACE_PERIOD (CLOCK_FREQUENCY / 10000u)
#undef TRACE_PACKET_SIZE
#define TRACE_PACKET_SIZE 2048
#else
#define TRACE_SAMPLES 0
#define TRACE_PERIOD 0
#endif
/* More memory, for sessions of the application's own. */
#ifndef TRACE_ROOM
#define TRACE_ROOM 0
#endif
#define TRACE_MEMORY                                                              \
    (KYMO_REGION_SIZE(1, TRACE_PACKETS, TRACE_PACKET_SIZE) + TRACE_SAMPLES * TRACE_PACKET_SIZE + \
     TRACE_ROOM)

void tracing_start(void);
void tracing_stop(void);

#endif
