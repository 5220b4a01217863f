/* A machine of two CPUs for tests: the program says which one it is, and the clock goes on by one
 * with each look at it. */
#ifndef PORT_H
#define PORT_H
#include "kymo.h"

#ifdef __cplusplus
extern "C" {
#endif
extern uint32_t this_cpu;
extern int masked;
#ifdef __cplusplus
}
#endif

#define BLOCK_DONE(FIELD) FIELD(u64, sector) FIELD(i32, error)
#define EVERYTHING(FIELD)                                                         \
    FIELD(u8, a) FIELD(u16, b) FIELD(u32, c) FIELD(u64, d) FIELD(i8, e) FIELD(i16, f) \
    FIELD(i32, g) FIELD(i64, h) FIELD(x8, i) FIELD(x16, j) FIELD(x32, k) FIELD(x64, l) \
    FIELD(flag, m) FIELD(text, n) FIELD(text, o)
#define SENSOR(FIELD) FIELD(u32, value)
#define MY_EVENTS(EVENT, BARE)                                                    \
    EVENT(21, block_done, BLOCK_DONE)                                             \
    EVENT(1000, everything, EVERYTHING)                                           \
    EVENT(2047, sensor, SENSOR)                                                   \
    BARE(29, watchdog)                                                            \
    BARE(1001, rare_watchdog)
KYMO_EVENTS(MY_EVENTS)

#endif
