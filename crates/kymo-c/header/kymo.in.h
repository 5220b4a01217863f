/* Kymo for kernels in C: what the kernel gives, calls and may declare.
 *
 * Made from the declarations of the library's events by a test, which fails where this file says
 * something else:
 *     KYMO_BLESS=1 cargo test -p kymo-c --test header
 *
 * The kernel
 * 1. defines the five functions kymo_port_*, and the memory with KYMO_MEMORY,
 * 2. calls kymo_start, kymo_read, kymo_stop and kymo_finish,
 * 3. calls kymo_sched_switch and the other events' functions where these things happen,
 * 4. declares events of its own with KYMO_EVENTS, and counters with KYMO_COUNTERS, if it wants some.
 *
 * With KYMO_OFF defined, nothing of all this is left in the object code: arguments of the events'
 * functions are type-checked and not evaluated, and kymo_start returns -KYMO_EOPNOTSUPP. Arguments
 * should have no side effects: whether they are evaluated is not said otherwise, either.
 *
 * Stack that the calls take, on RV32: 2,432 bytes for kymo_start, 2,048 for kymo_read, 1,664 for
 * kymo_stop, 640 for kymo_finish, 1,664 for kymo_send, 4,096 for kymo_dump and those like it; 64 for
 * an event, 704 for one with callers or counts, 160 for a name. KYMO_COUNT takes 3,136 bytes of
 * kymo_start, 2,448 of kymo_stop, and 2,720 of kymo_counting_tick. 64-bit processors take more. What
 * functions of the kernel's take comes on top.
 *
 * Needs C99 (with C11 or C++11 more is checked when the code is compiled), and no C library. */
#ifndef KYMO_H
#define KYMO_H

/* A kernel that defines uint8_t to uint64_t, int8_t to int64_t, uintptr_t, size_t, bool, true and
 * false itself does so before it includes this file, and defines KYMO_NO_STD_HEADERS. */
#ifndef KYMO_NO_STD_HEADERS
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif
#ifndef UINT32_MAX
#define UINT32_MAX 0xffffffffu
#endif
#ifndef UINT64_MAX
#define UINT64_MAX 0xffffffffffffffffull
#endif
#ifndef UINTPTR_MAX
#define UINTPTR_MAX __UINTPTR_MAX__
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Kymo runs on little-endian processors so far"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KYMO_INLINE static inline __attribute__((unused, always_inline))
#define KYMO_RARE(condition) __builtin_expect(!!(condition), 0)
#define KYMO_ALIGNED(bytes) __attribute__((aligned(bytes)))
#else
#define KYMO_INLINE static inline
#define KYMO_RARE(condition) (condition)
#define KYMO_ALIGNED(bytes) _Alignas(bytes)
#endif

/* Holds at file scope, and ends itself. */
#if defined(__cplusplus)
#define KYMO_ASSERT(condition, why) static_assert(condition, why);
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define KYMO_ASSERT(condition, why) _Static_assert(condition, why);
#else
#define KYMO_ASSERT(condition, why)
#endif

/* ---- What the kernel defines ---- */

/* The clock, in ticks of kymo_port_frequency: 64 bits that do not wrap. A step back is clamped and
 * counted. Called with interrupts masked, and in every record: keep it short. It records nothing. */
uint64_t kymo_port_clock(void);

/* Ticks a second. kymo_start refuses to start while it is 0; what counts asks each time. */
uint64_t kymo_port_frequency(void);

/* The number of this CPU, from 0. A library that was built for one CPU does not ask; count_..._masked
 * do, where KYMO_CPU is not defined. Called with interrupts masked. It records nothing. */
uint32_t kymo_port_cpu(void);

/* Masks the interrupts of this CPU; returns what kymo_port_unmask needs. Whatever may record an
 * event must be kept off this CPU until then: interrupts, and with them other threads. NMIs record
 * nothing, unless the library was built for it (--nmi), and KYMO_NMI is defined. Also a barrier for
 * the compiler, as any function in another file is. */
uintptr_t kymo_port_mask(void);

/* Puts back what kymo_port_mask found. */
void kymo_port_unmask(uintptr_t saved);

/* With KYMO_WITH_CONTEXTS defined in a file, its events can record who called them, and what their
 * CPU has counted (kymo_switch_stacks, kymo_switch_counts); best for the whole kernel
 * (-DKYMO_WITH_CONTEXTS). This costs a load and a branch for each event that is on, and some bytes of
 * its caller's stack. An event with callers or counts also calls kymo_port_mask and _unmask, the
 * functions of the sampler and of the counters' driver, and kymo_port_frequency; in an NMI, too. */
#if defined(KYMO_WITH_CONTEXTS) && !defined(__GNUC__) && !defined(KYMO_OFF)
#error "KYMO_WITH_CONTEXTS needs a compiler like gcc or clang"
#endif

/* What the functions ..._masked and events with callers read the clock with, for kernels that have a
 * cheaper way than a function: define it before this file is included. With KYMO_NMI, for a library
 * that was built for NMIs (--nmi), they read none: the library does. */
#ifdef KYMO_NMI
#undef KYMO_CLOCK
#define KYMO_CLOCK() ((uint64_t)0)
#endif
#ifndef KYMO_CLOCK
#define KYMO_CLOCK() kymo_port_clock()
#endif

/* What count_..._masked ask for the number of this CPU, for kernels that have a cheaper way than a
 * function: define it before this file is included, as 0 with one CPU. */
#ifndef KYMO_CPU
#define KYMO_CPU() kymo_port_cpu()
#endif

/* The memory to record into: KYMO_MEMORY(cpus, bytes) stands once, in one C file, at file scope.
 * It must be zero when the first event may be recorded, as static data are; it need not be part of
 * the image. */
extern uint8_t kymo_memory[];
extern const size_t kymo_memory_size;
extern const uint32_t kymo_memory_cpus;
extern const uint32_t kymo_memory_counters;
extern const uint32_t kymo_memory_stride;

/* Where the control blocks begin in the memory. */
#if UINTPTR_MAX > 0xffffffffu
#define KYMO_BLOCKS_ @CONTROL_64@u
#else
#define KYMO_BLOCKS_ @CONTROL_32@u
#endif

/* Bytes of a CPU's control blocks with so many words of counters behind them. */
#define KYMO_STRIDE_(words)                                                       \
    (@CONTROL_SIZE@u * (@CHANNEL_KINDS@u + ((words) * sizeof(size_t) + @CONTROL_SIZE@u - 1u) / @CONTROL_SIZE@u))

#ifdef KYMO_OFF
#define KYMO_MEMORY_(cpus, bytes, words) KYMO_ASSERT((cpus) > 0 && (bytes) > 0, "numbers")
#define KYMO_MEMORY_COUNTS_(cpus, bytes)
#else
#define KYMO_MEMORY_(cpus, bytes, words)                                          \
    KYMO_ASSERT((bytes) >= 8192 + KYMO_BLOCKS_, "the memory is too small for any session") \
    KYMO_ALIGNED(4096) uint8_t kymo_memory[(bytes)];                              \
    const size_t kymo_memory_size = (bytes);                                      \
    const uint32_t kymo_memory_cpus = (cpus);                                     \
    const uint32_t kymo_memory_counters = (words);                                \
    const uint32_t kymo_memory_stride = (uint32_t)KYMO_STRIDE_(words);
/* Without this name of the memory, nothing links that counts by inlined code. Other compilers inline
 * none. */
#if defined(__GNUC__)
#define KYMO_COUNTED_(bytes)                                                      \
    extern uint8_t kymo_counted_memory[(bytes)] __attribute__((alias("kymo_memory")));
#else
#define KYMO_COUNTED_(bytes)
#endif
/* What counts does so without a session, whose start would refuse memory that is too small. */
#define KYMO_MEMORY_COUNTS_(cpus, bytes)                                          \
    KYMO_ASSERT((bytes) >= KYMO_BLOCKS_ +                                         \
                    (size_t)(cpus) * KYMO_STRIDE_((size_t)kymo_counter_words),    \
                "the memory is too small for its CPUs")                           \
    KYMO_COUNTED_(bytes)
#endif
#define KYMO_MEMORY(cpus, bytes) KYMO_MEMORY_(cpus, bytes, 0u)
/* For a kernel with counters of its own (KYMO_COUNTERS), instead: it makes the memory larger by what
 * these take. */
#define KYMO_MEMORY_COUNTING(cpus, bytes)                                         \
    KYMO_MEMORY_(cpus, KYMO_WITH_COUNTERS_(cpus, bytes), (uint32_t)kymo_counter_words) \
    KYMO_MEMORY_COUNTS_(cpus, KYMO_WITH_COUNTERS_(cpus, bytes))
#define KYMO_WITH_COUNTERS_(cpus, bytes)                                          \
    ((bytes) + (size_t)kymo_counter_bytes +                                       \
     (size_t)(cpus) * (KYMO_STRIDE_((size_t)kymo_counter_words) - KYMO_STRIDE_(0u)))

/* Bytes that are enough for this many CPUs, each with `packets` packets of `packet_size` bytes for
 * events and eight for names, all events of the vocabulary, and 4 KiB of declarations of the
 * kernel's own. With fewer events, less is enough: kymo_memory_needed tells. Samples take besides
 * what their packets take: cpus * samples_packets * packet_size. */
#define KYMO_REGION_SIZE(cpus, packets, packet_size)                              \
    ((size_t)KYMO_BLOCKS_ + @FIXED@ + (packet_size) +                             \
     (size_t)(cpus) * (@PER_CPU@ + ((size_t)(packets) + 8) * (packet_size)))

/* ---- Errors: a call that is refused returns one of these, negated, and has changed nothing ---- */

enum kymo_error {
@ERRORS@
};

/* ---- The sessions ---- */

/* What is recorded. Modes share the memory and its channels: the first that starts opens them, and
 * the last that finishes gives them up. */
enum kymo_mode {
    KYMO_TRACE = 0,  /* what happens: events */
    KYMO_SAMPLE = 1, /* where the time goes: see "Samples" */
    KYMO_COUNT = 2,  /* how much of the hardware is used: see "Counts" */
};

/* An event of the kernel's own; see KYMO_EVENT_TABLE. */
struct kymo_event {
    uint32_t id;
    const char *name;
    const char *fields;
};

/* A full ring reuses its oldest packet: a flight recorder. Without it, new events are dropped and
 * counted, until kymo_read has taken a packet. */
#define KYMO_ROLLING 1u
/* A host reads the memory of the machine, and frees packets; kymo_read frees none. */
#define KYMO_HOST_READS 2u
/* For `sample_depth`: no callers. A sample still has its place, an event only its thread. */
#define KYMO_NO_CALLERS 0xffffffffu

/* What a counter of the kernel's own is. */
enum kymo_counter_kind {
    KYMO_COUNTER_GROWS = 0,    /* a number that only grows */
    KYMO_COUNTER_GAUGE = 1,    /* a number that goes up and down */
    KYMO_COUNTER_HISTOGRAM = 2 /* how often values of each order of magnitude came up, and their sum */
};

/* A counter of the kernel's own, and all of them; see KYMO_COUNTER_TABLE. */
struct kymo_own_counter {
    uint32_t word;
    uint32_t kind;
    const char *name;
    const char *unit;
};
struct kymo_counters {
    const struct kymo_own_counter *list;
    uint32_t count;
    uint32_t words;
    const void *library;
};

/* What is recorded, and where to. All zero is a configuration: everything, on all CPUs. */
struct kymo_config {
    uint32_t flags;         /* of KYMO_ROLLING and KYMO_HOST_READS */
    uint32_t cpus;          /* CPUs that record; 0: those of KYMO_MEMORY */
    uint32_t packet_size;   /* bytes, a power of two, 256 to 131072; 0: 1024, with samples 2048 */
    uint32_t packets;       /* of each CPU's events, 4 at least; 0: as many as fit. With KYMO_NMI, these
                             * numbers are powers of two: of events, names and samples. */
    uint32_t names_packets; /* of each CPU's names, 4 at least; 0: 4 */
    uint32_t events_count;  /* ids in events */
    uint32_t own_count;     /* events in own */
    uint32_t samples_packets; /* of each CPU's samples, 4 at least; 0: it takes none */
    int64_t epoch_seconds;  /* from 1970-01-01 to tick 0; 0: not known */
    uint64_t seed;          /* tells two runs apart: any number */
    uint64_t phys;          /* physical address of the memory; 0: addresses are physical */
    const uint8_t *build_id;        /* 20 bytes, or NULL */
    const uint16_t *events;         /* KYMO_ID_... of the events to record, or NULL for all */
    const struct kymo_event *own;   /* the kernel's own events, or NULL */
    /* Records the names and states of all threads, locks and interrupts that exist, or NULL. */
    void (*dump_state)(void);
    /* Returns when every CPU has left the record that it was in: for example, each has answered
     * an interrupt. Needed for more than one CPU. */
    void (*synchronize)(void);
    uint64_t sample_period; /* ticks between two samples of a CPU, for KYMO_SAMPLE */
    uint32_t sample_depth;  /* most callers of a sample or an event, up to 127; 0: that many.
                             * KYMO_NO_CALLERS: none */
    uint32_t sample_driver; /* of enum kymo_sampling_driver: what calls kymo_sample. TIMER, NMI or IPI */
    /* What KYMO_SAMPLER or KYMO_SAMPLER_OF_EVENTS has defined; NULL: no samples. */
    const struct kymo_sampler *sampler;
    /* Samples are to be taken so often from now on, in ticks; 0: no more. Or NULL. */
    void (*sampling)(uint64_t period);
    const struct kymo_counters *counters; /* what KYMO_COUNTER_TABLE has defined, or NULL */
    uint64_t counters_period; /* ticks from one record of a CPU's counters to the next, by kymo_tick;
                               * 0: they are recorded only when the mode stops */
    /* For KYMO_COUNT: what KYMO_COUNTING or KYMO_COUNTING_READY has defined, or NULL; give it to the
     * session's first mode, too. */
    const struct kymo_counting *counting;
    /* What each CPU counts, such as "cycles+instructions" or "cycles++branches:u+branch-misses:u": two
     * groups, which take turns if they do not fit together. NULL: cycles and instructions. */
    const char *counting_groups;
    uint64_t counting_ns; /* nanoseconds from one record of the groups to the next; 0: 100 ms */
    /* Has every CPU call kymo_counting_tick, this one too, and returns when they have: that of the
     * session's first mode. The library never calls it while it calls `synchronize`, and meanwhile
     * kymo_start, kymo_stop and kymo_finish are refused on all CPUs (-KYMO_EBUSY). NULL: the other
     * CPUs begin and end at their next tick, and their counts since their last record are lost. */
    void (*counting_notice)(void);
};

/* What became of the events of a session; names are not counted. */
struct kymo_counts {
    uint64_t retained;    /* are in the memory */
    uint64_t read;        /* were read, and then gave way to newer ones */
    uint64_t overwritten; /* gave way to newer ones before kymo_read had read them. (A host that
                           * reads a flight recorder does not say what it has read.) */
    uint64_t discarded;   /* were not recorded: the memory was full, or no packet can hold them */
};

/* What a session has lost. */
struct kymo_totals {
    uint64_t discarded;    /* events that were not recorded: no room, or no packet can hold them */
    uint64_t too_large;    /* of these, those that no packet can hold */
    uint64_t overwritten;  /* events that gave way to newer ones before they were read */
    uint64_t clock_back;   /* steps back of the clock */
    uint64_t abandoned;    /* packets whose writer died */
    uint64_t without_ring; /* of `discarded`: of CPUs that the session has no ring for */
};

/* What asks for permission. */
enum kymo_call {
    KYMO_CALL_START = 0, /* kymo_start, kymo_reopen */
    KYMO_CALL_READ = 1,  /* what was recorded goes to the caller, kernel addresses included */
    KYMO_CALL_STOP = 2,
    KYMO_CALL_FINISH = 3,
    KYMO_CALL_SWITCH = 4,
    KYMO_CALL_SNAPSHOT = 5
};

/* ---- On the target: what was recorded, read by the kernel itself ---- */

/* Words of a record's fields that are given. */
#define KYMO_RECORD_WORDS @RECORD_WORDS@u

/* A record, as kymo_get gives it. */
struct kymo_record {
    uint64_t time;    /* ticks of kymo_port_frequency */
    uint32_t cpu;     /* which recorded it */
    uint32_t tid;     /* the thread that ran, or KYMO_TID_UNKNOWN where the CPU's switches do not
                       * tell */
    uint32_t id;      /* the event: its KYMO_ID_..., or the id of one of the kernel's own */
    uint32_t size;    /* bytes of its fields */
    const char *name; /* of the event: name_size bytes, and no NUL; it stays */
    size_t name_size;
    /* The fields in their order, each at a multiple of its size or of 4, a text as a word with its
     * length and its bytes. Those behind KYMO_RECORD_WORDS words are left out. */
    uint32_t words[KYMO_RECORD_WORDS];
};

/* Takes the next `size` bytes of a text, which has no NUL: for a console. Returns 0, or a negative
 * number, which ends the call and is what that returns. It records nothing that it would then have
 * to print itself. */
typedef int32_t (*kymo_write)(void *context, const char *text, size_t size);

/* ---- Sending: frames over a line, where no host reads the memory ---- */

/* An RTT control block with one up-buffer, named Kymo, which a debug probe empties while the machine
 * runs: KYMO_RTT(name, bytes) stands once, in one C file, at file scope; the sender's `rtt` is then
 * &name. The block is called _SEGGER_RTT, as hosts expect. `bytes` is 256 at least, and more than
 * kymo_buffer_size with the headers of its frames. A kernel that has SEGGER's own code sends by the
 * sender's functions instead. */
struct kymo_rtt {
    void *block;
    void *memory;
    size_t size;
    uint32_t written; /* the library's */
    bool has_begun;   /* the library's */
};

#ifdef KYMO_OFF
#define KYMO_RTT(name, bytes) static struct kymo_rtt name = {0, 0, (bytes), 0, false};
#else
#define KYMO_RTT(name, bytes)                                                     \
    KYMO_ASSERT((bytes) >= 256, "an up-buffer has 256 bytes at least")            \
    KYMO_ALIGNED(8) uint8_t _SEGGER_RTT[56 + 2 * sizeof(void *)];                 \
    static KYMO_ALIGNED(4) uint8_t name##_memory[(bytes)];                        \
    static struct kymo_rtt name = {_SEGGER_RTT, name##_memory, (bytes), 0, false};
#endif

/* What a sender has done. */
struct kymo_sent {
    uint64_t frames;         /* taken whole */
    uint64_t bytes;          /* taken, those of cut frames included */
    uint64_t dropped_frames; /* dropped, or cut */
    uint64_t dropped_bytes;  /* of these, what was not taken */
    uint64_t waits;          /* attempts that were made because there was no room */
};

/* Sends what kymo_read gives, in frames, over anything that takes bytes: a UART, a semihosting file,
 * an up-buffer. All zero, but for `buffer` and either `offer` or `rtt`, is a sender. It belongs to
 * one caller at a time, and one CPU sends what all have recorded. */
struct kymo_sender {
    void *context; /* passed to the functions */
    /* Takes as many of the first bytes as there is room for now; returns how many. */
    size_t (*offer)(void *context, const void *bytes, size_t size);
    /* Bytes for which there is room now; or NULL where that is not known. With it, a frame is sent
     * only if there is room for all of it, and no packet is read that has none; without it, a frame
     * may be cut, which costs the receiver the same frame. */
    size_t (*room)(void *context);
    struct kymo_rtt *rtt; /* what KYMO_RTT has defined, instead of the functions; or NULL */
    uint32_t attempts;    /* for a frame that has no room, besides the first; then it is dropped */
    uint32_t frame_size;  /* most bytes of a frame behind its header of 24, 64 at least; 0: 512 */
    /* Whether interrupts are masked now: then no attempt is made. Or NULL. */
    bool (*masked)(void);
    void *buffer; /* as kymo_read wants it: aligned to 4 bytes, of kymo_buffer_size bytes at least */
    size_t buffer_size;
    uint32_t next;     /* the library's, as the rest; 0 at first */
    uint32_t reserved; /* 0 */
    struct kymo_sent sent;
};

/* ---- Counts ---- */

enum kymo_counted_kind {
    KYMO_COUNTED_HARDWARE = 0, /* the number is of enum kymo_hardware */
    KYMO_COUNTED_CACHE = 3,    /* of enum kymo_cache, + 256 * (0 load, 1 store, 2 prefetch), + 65536 for
                                * misses */
    KYMO_COUNTED_RAW = 4       /* the number that the processor's manual gives the event */
};

@HARDWARE@
@CACHES@
@SOFTWARE@
/* Modes of the processor in which an event is not counted. */
#define KYMO_EXCLUDE_USER 1u
#define KYMO_EXCLUDE_KERNEL 2u

/* An event that a counter is to count. */
struct kymo_counted {
    uint32_t kind;    /* of enum kymo_counted_kind; they and the numbers are those of Linux's perf */
    uint32_t exclude; /* of KYMO_EXCLUDE_..., 0 for none */
    uint64_t number;
};

/* The driver of the processors' counters. All CPUs have the same. Counters are numbered from 0 to 63,
 * and sets of them are bits. The functions are called with interrupts masked, on the CPU whose counters
 * they are; where an NMI records an event with counts, in that, too. */
struct kymo_pmu {
    uint32_t slots; /* most events of a group that need a counter */
    /* The counters that can count an event; 0 if none can, or not without the excluded modes. */
    uint64_t (*counters)(const struct kymo_counted *event);
    /* The counter's bits, at most 64. Counters do not interrupt here: each CPU calls kymo_counting_tick
     * before one of them can go round. */
    uint32_t (*width)(uint32_t counter);
    /* Makes a counter that is not started count an event from a value on, once it is. Returns whether
     * it can. */
    bool (*program)(uint32_t counter, const struct kymo_counted *event, uint64_t value);
    uint64_t (*read)(uint32_t counter); /* its value, in the lower bits */
    void (*start)(uint64_t counters); /* all at the same time where the processor can; maybe none */
    void (*stop)(uint64_t counters);
};

/* The room that counting takes: KYMO_COUNTING(name, cpus, &pmu) stands once, in one C file, at file
 * scope, where `pmu` is a struct kymo_pmu and `cpus` no fewer than those of KYMO_MEMORY; the
 * configuration's `counting` is then &name. @CPU_KIB@ KiB for each CPU. All sessions use the one that
 * the first kymo_start was given, also if that was refused. */
struct kymo_counting {
    const struct kymo_pmu *pmu;
    void *places;
    uint32_t cpus;
    const uint8_t *library;
};

/* KYMO_COUNTING_READY(name, cpus) stands in place of KYMO_COUNTING, and needs no struct kymo_pmu: the
 * library has the driver. Libraries for AArch64 have that of PMUv3; the kernel runs at EL1. Libraries
 * for RV64 have that of SBI's extension PMU; the kernel runs in S-mode. With other libraries it does
 * not link; a kernel at EL2 or in M-mode would link, and must not use it.
 *
 * From a start of KYMO_COUNT on, a CPU's counters are the library's, cycle, instret and PMCCNTR too:
 * each CPU sets them up once, in kymo_start or at its next tick, which takes long then (on RV64
 * hundreds of calls of the firmware). Their overflow interrupts stay off. A CPU without counters is
 * refused where it starts the mode, and counts nothing elsewhere. */
#ifdef KYMO_OFF
#define KYMO_COUNTING(name, cpus, pmu) static const struct kymo_counting name = {(pmu), 0, (cpus), 0};
#define KYMO_COUNTING_READY(name, cpus) KYMO_COUNTING(name, cpus, 0)
#else
extern const uint8_t kymo_counting_library[], kymo_counting_ready_library[];
#define KYMO_COUNTING(name, cpus, pmu)                                            \
    KYMO_COUNTING_BY(name, cpus, pmu, kymo_counting_library)
#define KYMO_COUNTING_READY(name, cpus)                                           \
    KYMO_COUNTING_BY(name, cpus, 0, kymo_counting_ready_library)
#define KYMO_COUNTING_BY(name, cpus, pmu, library)                                \
    static KYMO_ALIGNED(16) uint8_t name##_places[(size_t)(cpus) * @CPU_SIZE@u];         \
    static const struct kymo_counting name = {(pmu), name##_places, (cpus), (library)};
#endif

/* ---- Samples ---- */

struct kymo_sample;

/* The room that samples take for callers: KYMO_SAMPLER(name, cpus) stands once, in one C file, at
 * file scope; the configuration's `sampler` is then &name. 2 KiB for each CPU, 1 KiB on 32-bit
 * processors. */
struct kymo_sampler {
    void *places;
    uint32_t cpus;
    const uint8_t *library;
    void (*here)(struct kymo_sample *sample);
};

/* KYMO_SAMPLER_OF_EVENTS(name, cpus, here) stands in place of KYMO_SAMPLER in a kernel with
 * KYMO_WITH_CONTEXTS, whose events can then record their callers, also where no samples are taken.
 * The session needs `samples_packets` for them. `here` is a function of the kernel's that fills in
 * what runs now: `tid`, `text` and `stacks`, and what the kernel has of `has_program` and the rest
 * behind; all else is zero. Its windows can be read until the event is recorded. It is called with
 * interrupts masked, also in an NMI that records such an event, and records nothing. */
#ifdef KYMO_OFF
#define KYMO_SAMPLER(name, cpus) static const struct kymo_sampler name = {0, (cpus), 0, 0};
#ifdef KYMO_WITH_CONTEXTS
#define KYMO_SAMPLER_OF_EVENTS(name, cpus, here)                                  \
    static const struct kymo_sampler name = {0, (cpus), 0, (here)};
#endif
#else
#define KYMO_SAMPLER(name, cpus) KYMO_SAMPLER_(name, cpus, 0, 0)
#define KYMO_SAMPLER_(name, cpus, library, here)                                  \
    static KYMO_ALIGNED(128) uint8_t                                              \
        name##_places[128u + (size_t)(cpus) * 256u * sizeof(uintptr_t)];          \
    static const struct kymo_sampler name = {name##_places, (cpus), (library), (here)};
#ifdef KYMO_WITH_CONTEXTS
extern const uint8_t kymo_contexts_library[];
#define KYMO_SAMPLER_OF_EVENTS(name, cpus, here)                                  \
    KYMO_SAMPLER_(name, cpus, kymo_contexts_library, here)
#endif
#endif

/* Addresses that can be read without a fault until the sample is taken: a stack, or a page of
 * one. */
struct kymo_window {
    uintptr_t begin, end;
    const void *at; /* where the kernel reads what is at `begin`; NULL: there */
};

/* What an interrupt has interrupted. Callers are found by frame pointers (gcc and clang:
 * -fno-omit-frame-pointer), and nothing is read but what lies in a window. */
struct kymo_sample {
    uintptr_t ip, fp;        /* the instruction pointer and the frame pointer */
    uintptr_t link;          /* RISC-V: ra, for functions that call none; else 0 */
    uint32_t tid;            /* the thread that ran */
    uint32_t mode;           /* of enum kymo_cpu_mode */
    uint32_t missed;         /* samples that were due since the CPU's last one and not taken */
    bool has_program;        /* the interrupted kernel code works for a program */
    uintptr_t text[2];       /* begin and end of the kernel's code */
    struct kymo_window stacks[2]; /* the running thread's kernel stack, the interrupts' stack */
    /* For kernels with programs; for KYMO_CPU_MODE_KERNEL: how the program entered the kernel. */
    uintptr_t program_ip, program_fp;
    uintptr_t program_text[2]; /* where programs' code can be */
    /* Gives the readable memory of the running program around an address: found by looking into
     * the page table, not by trying. Or NULL. */
    bool (*program_stack)(uintptr_t address, struct kymo_window *found);
};

/* ---- The command `perf` of a kernel's shell ---- */

/* What it asks of the kernel. Functions that return a number return 0, or a negative one if they
 * fail, which ends the command. */
struct kymo_perf {
    void *context; /* passed to each function */
    /* Makes the folder for the files, or opens the line to the host; or null. */
    int32_t (*prepare)(void *context, const char *output);
    /* Appends bytes to a file of the trace: "metadata", "events_0", ... */
    int32_t (*write)(void *context, const char *file, const void *bytes, size_t size);
    /* Lets other threads run for about this long. */
    void (*sleep)(void *context, uint32_t microseconds);
    /* Whether what is recorded has ended; or null. */
    bool (*is_done)(void *context);
    /* Sets the priority of the calling thread, and tells which it had; or null. */
    int32_t (*set_priority)(void *context, int32_t priority, int32_t *before);
    /* As kymo_read wants it: aligned to 4 bytes, of kymo_buffer_size bytes at least. */
    void *buffer;
    size_t buffer_size;
};

struct kymo_perf_options {
    uint32_t duration_ms; /* 0: until `is_done` */
    uint32_t interval_ms; /* from one look at the channels to the next */
    uint32_t buffer_size; /* of the buffer that the shell is to give */
    int32_t priority;
    bool has_priority;
    const char *output; /* null if none was given */
};

#ifndef KYMO_OFF

/* Begins to record. The tables of `config` must stay. A mode that joins one that runs takes the
 * session as it is: the configuration is that of the first mode, except for the period and depth
 * of KYMO_SAMPLE, and for the groups of KYMO_COUNT and their period. KYMO_SAMPLE is refused
 * (KYMO_EINVAL) where the first mode's configuration has no `sampler` or no `samples_packets`, and
 * KYMO_COUNT where it has no `counting`. Returns the number of channels, from 0 on; each is a file
 * of the trace. */
#ifndef KYMO_NMI /* A library for another header does not link, nor does one that is not for NMIs. */
#define kymo_start kymo_start_for_header_@STAMP@
#else
#define kymo_start kymo_start_for_header_@STAMP@_nmi
/* Nor does a file that only records. */
#define kymo_record_0_masked kymo_record_0_masked_nmi
#define kymo_record_1_masked kymo_record_1_masked_nmi
#define kymo_record_2_masked kymo_record_2_masked_nmi
#define kymo_record_3_masked kymo_record_3_masked_nmi
#define kymo_record_4_masked kymo_record_4_masked_nmi
#define kymo_record_words_masked kymo_record_words_masked_nmi
#endif
int32_t kymo_start(uint32_t mode, const struct kymo_config *config);

/* Starts what the word `kymo=` of a command line asks for, which `kymo record` writes there:
 * "kymo=rolling,events=sched_*:irq_*", "kymo=mode=trace:sample,period_ns=100000"; without the word,
 * KYMO_TRACE. `config` is the kernel's own choice, which the word may change; for samples it has a
 * `sampler`. Returns the number of channels, or 0 where the word says `off`. A part that cannot be
 * used is refused (KYMO_EINVAL), and *wrong is where it begins in `line`; else it is NULL. `wrong` may
 * be NULL. Callers and counts of single events where `sampler` is not of KYMO_SAMPLER_OF_EVENTS, counts
 * where there is no `counting`, samples by anything but the timer, and a program that sends
 * (`kymo record --via syscall`) are KYMO_EOPNOTSUPP. */
int32_t kymo_start_as(const char *line, const struct kymo_config *config, const char **wrong);

/* Copies what is new in a channel to `buffer`: one packet of its file, or a part of the metadata.
 * Returns its bytes, 0 where there is nothing new. `buffer` is aligned to 4 bytes, and has
 * kymo_buffer_size bytes at least. All that is read of a channel, in order, is its file. Works from
 * kymo_start to kymo_finish; while recording, a packet that is being written is read up to its last
 * record. */
int32_t kymo_read(uint32_t mode, uint32_t channel, void *buffer, size_t size);

/* The least size of a buffer of kymo_read, in bytes. */
int32_t kymo_buffer_size(void);

/* Writes the name of a channel's file with a NUL: "metadata", "names_0", "events_0", ... Returns its
 * length without the NUL; 16 bytes are enough. */
int32_t kymo_channel_name(uint32_t channel, char *name, size_t size);

/* Whether a mode records now: from kymo_start to the kymo_stop of the last mode that runs. While such
 * a call is at work, it may say either. */
bool kymo_is_recording(void);

/* The flags that the session has, of KYMO_ROLLING and KYMO_HOST_READS: a mode that joins one that runs
 * gets those of the first. Nobody frees the packets of a flight recorder: it has KYMO_ROLLING alone.
 * -KYMO_EINVAL where there is no session, -KYMO_EBUSY while another CPU reads events_0. */
int32_t kymo_flags(void);

/* Counts the session's events. Those that are recorded meanwhile may be missing. */
int32_t kymo_counts(struct kymo_counts *counts);

/* Switches an event of the mode off, or on again: its KYMO_ID_..., or the id of one of the
 * kernel's own. */
int32_t kymo_switch(uint32_t mode, uint32_t id, bool on);

/* Has an event record who called it, or not any more, until KYMO_TRACE stops. `mode` is KYMO_TRACE.
 * Refused (KYMO_EINVAL) where there is no such event, or the session was started without a `sampler` of
 * KYMO_SAMPLER_OF_EVENTS or without `samples_packets`. Events of files without KYMO_WITH_CONTEXTS
 * record no callers. Chains go as deep as the first mode's `sample_depth` says; from the start of
 * KYMO_SAMPLE on, as deep as its own does. */
int32_t kymo_switch_stacks(uint32_t mode, uint32_t id, bool on);

/* Has an event record what its CPU has counted, or not any more, until KYMO_TRACE or KYMO_COUNT stops.
 * `mode` is KYMO_COUNT. Refused (KYMO_EINVAL) where there is no such event, or the session was started
 * without a `sampler` of KYMO_SAMPLER_OF_EVENTS. There are none before the CPU's first tick since
 * KYMO_COUNT was started, and in an NMI there may be none. */
int32_t kymo_switch_counts(uint32_t mode, uint32_t id, bool on);

/* Calls dump_state again: for a flight recorder, before kymo_stop. */
int32_t kymo_snapshot(uint32_t mode);

/* Ends the mode, and returns when nobody is inside one of its records. What was recorded can be
 * read. Recording ends with the last mode that runs. Returns the number of channels. */
int32_t kymo_stop(uint32_t mode);

/* Ends the mode, if that was not done, and gives it up; with the last mode, what was recorded:
 * kymo_start may begin anew. Says what was lost so far, unless `totals` is NULL. */
int32_t kymo_finish(uint32_t mode, struct kymo_totals *totals);

/* Takes up what a session has left in memory that a warm reset does not clear: kymo_read gives the
 * trace, kymo_finish gives it up. Call it before the first event. Returns the number of channels, 0
 * where nothing can be read. The kernel's own counters go on from what they had counted before the
 * reset. */
int32_t kymo_reopen(uint32_t mode);

/* Has the calls ask whether the caller may make them: KYMO_CALL_...; NULL: all may. For kernels
 * whose system calls lead here. */
void kymo_set_permits(bool (*permits)(uint32_t call));

/* Records a sample of what was interrupted, if samples are taken: call it in the timer's interrupt,
 * with interrupts masked. Returns whether one was recorded; one without room is counted. */
bool kymo_sample(const struct kymo_sample *sample);

/* Ticks between two samples of a CPU, on average; 0 where none are to be taken. */
uint64_t kymo_sample_period(void);

/* Ticks until the next sample of this CPU: the period, give or take a quarter, so that samples do
 * not keep step with a loop. */
uint64_t kymo_sample_next(void);

/* Records what this CPU's counters have, if the configuration's `counters_period` has passed since
 * it did so last: call it in the timer's interrupt, with interrupts masked. */
void kymo_tick(void);

/* Counts on this CPU what the session counts, and records it when that is due: call it in the timer's
 * interrupt of every CPU, with interrupts masked, and not from an NMI. A CPU without ticks calls it
 * before its counters go round. */
void kymo_counting_tick(void);

/* A software event (of enum kymo_software, but not a clock: the library counts these itself) happened
 * on this CPU, in the kernel or in a program. Call it with interrupts masked, and not from an NMI. */
void kymo_happened(uint32_t event, bool in_kernel);

/* Sends the first frame of the session, behind kymo_start: `kymo record --serial`, `--rtt`,
 * `--rtt-gdb` and `--file` receive what follows. Returns 0, or -KYMO_ENOBUFS if the frame was
 * dropped. */
int32_t kymo_send_open(struct kymo_sender *sender);

/* Sends what is new in all channels, and reads nothing for which there may be no room: that stays in
 * the rings until the next call, and so does what is beyond 64 packets of a channel. Returns the
 * bytes that were sent, 0 where there was nothing new or no room. -KYMO_ENOBUFS comes only from a
 * sender that does not know its room; the receiver is told how many frames it lacks. */
int32_t kymo_send(uint32_t mode, struct kymo_sender *sender);

/* Ends the mode, the last that runs, sends what is left, says what was lost, and finishes. Where
 * there is no room it calls `wait` until there is, or until it returns false or is NULL: what is left
 * is given up then, and -KYMO_ENOBUFS returned. */
int32_t kymo_send_finish(uint32_t mode, struct kymo_sender *sender, bool (*wait)(void *context));

/* The calls below read the rings where they are, while recording goes on, with constant memory
 * however many CPUs there are: to find the next record they look through the packets again. That is
 * slow, and a console is slower. They wait for no lock and mask nothing; two of them, or kymo_read,
 * do not disturb each other. They show the session that runs, or the last one, up to its
 * replacement by the next kymo_start. Nobody is asked for permission. */

/* Prints the newest `last_n` records of all CPUs, oldest first and never more, behind a line with
 * the counts. Records that come in meanwhile are not printed.
 *
 *     kymo: 3 retained, 0 overwritten, 0 discarded
 *         0.0120000 cpu0 [0] sched_switch prev_tid=0 next_tid=5 (worker) prev_state=Runnable ...
 *         0.0120110 cpu0 [5 worker] lock_acquired lock=0x80002000 (bus) kind=Mutex contended=false
 *
 * Times are in seconds of the clock. In brackets is the thread that ran, by the CPU's switches; it
 * is left out where they do not tell. Names are the newest that were recorded. Further lines say
 * where records are missing. After kymo_reopen the kernel's own events have their ids instead of
 * their names. Returns 0, or what `write` returned. */
int32_t kymo_dump(kymo_write write, void *context, size_t last_n);

/* kymo_dump of each CPU's newest `last_n` records, CPU after CPU: a busy one does not hide the
 * others. */
int32_t kymo_dump_per_cpu(kymo_write write, void *context, size_t last_n);

/* kymo_dump_per_cpu for the handler of a panic, with interrupts masked: a record that this CPU was
 * writing is left out, and does not hide those before it. It may be called wherever the panic was,
 * inside a call of this library too. */
int32_t kymo_dump_on_panic(kymo_write write, void *context, size_t last_n);

/* Gives record number `index`, 0 being the oldest that is there. `text` gets the record as a line of
 * kymo_dump has it behind the time and the CPU, with a NUL, or as much of it as `size` bytes hold;
 * it may be NULL with size 0. Returns the length that all of the text has without the NUL (0 without
 * `text`), or -KYMO_EINVAL behind the newest record. It looks through the rings as often as `index`
 * says. In a ring that overwrites, numbers change while events are recorded. */
int32_t kymo_get(size_t index, struct kymo_record *record, char *text, size_t size);

/* From here on, the calls above show nothing of what was recorded until now. The rings, and all
 * other readers, keep it; kymo_counts counts it. */
void kymo_clear(void);

/* Bytes of memory that the last kymo_start needed which returned -KYMO_ENOMEM. */
size_t kymo_memory_needed(void);

/* Records as the options say, and writes what was recorded, in the thread that calls. Returns 0, or
 * the first negative number that a function returned: no session is left then, and the priority is
 * what it was. */
int32_t kymo_perf_record(const struct kymo_perf *perf, const struct kymo_config *config,
                         const struct kymo_perf_options *options);

/* Stops the session that somebody has started by kymo_start, writes what it holds, and finishes it.
 * If there is none, or `prepare` fails, nothing has changed; if `write` fails, the session is
 * stopped, and what was not yet passed to `write` can be gathered into the same folder. */
int32_t kymo_perf_gather(const struct kymo_perf *perf, const char *output);

/* Reads options from `count` words: -t MS (3000), -s MS (100), -b BYTES (262144), -p N, -o DIR.
 * Returns how many of the words belong to them, or -KYMO_EINVAL. */
int32_t kymo_perf_options(struct kymo_perf_options *options, int count, const char *const *words);

#else

KYMO_INLINE int32_t kymo_start(uint32_t mode, const struct kymo_config *config) {
    (void)mode, (void)config;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_start_as(
        const char *line, const struct kymo_config *config, const char **wrong) {
    (void)line, (void)config, (void)wrong;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_read(uint32_t mode, uint32_t channel, void *buffer, size_t size) {
    (void)mode, (void)channel, (void)buffer, (void)size;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_buffer_size(void) { return -KYMO_EOPNOTSUPP; }
KYMO_INLINE int32_t kymo_channel_name(uint32_t channel, char *name, size_t size) {
    (void)channel, (void)name, (void)size;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_switch(uint32_t mode, uint32_t id, bool on) {
    (void)mode, (void)id, (void)on;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_switch_stacks(uint32_t mode, uint32_t id, bool on) {
    (void)mode, (void)id, (void)on;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_switch_counts(uint32_t mode, uint32_t id, bool on) {
    (void)mode, (void)id, (void)on;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE bool kymo_is_recording(void) { return false; }
KYMO_INLINE int32_t kymo_flags(void) { return -KYMO_EOPNOTSUPP; }
KYMO_INLINE int32_t kymo_counts(struct kymo_counts *counts) {
    (void)counts;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_snapshot(uint32_t mode) {
    (void)mode;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_stop(uint32_t mode) {
    (void)mode;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_finish(uint32_t mode, struct kymo_totals *totals) {
    (void)mode, (void)totals;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_reopen(uint32_t mode) {
    (void)mode;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE void kymo_set_permits(bool (*permits)(uint32_t call)) { (void)permits; }
KYMO_INLINE bool kymo_sample(const struct kymo_sample *sample) {
    (void)sample;
    return false;
}
KYMO_INLINE uint64_t kymo_sample_period(void) { return 0; }
KYMO_INLINE uint64_t kymo_sample_next(void) { return UINT64_MAX; }
KYMO_INLINE void kymo_tick(void) {}
KYMO_INLINE void kymo_counting_tick(void) {}
KYMO_INLINE void kymo_happened(uint32_t event, bool in_kernel) {
    (void)event, (void)in_kernel;
}
KYMO_INLINE int32_t kymo_send_open(struct kymo_sender *sender) {
    (void)sender;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_send(uint32_t mode, struct kymo_sender *sender) {
    (void)mode, (void)sender;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_send_finish(uint32_t mode, struct kymo_sender *sender,
                                     bool (*wait)(void *context)) {
    (void)mode, (void)sender, (void)wait;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_dump(kymo_write write, void *context, size_t last_n) {
    (void)write, (void)context, (void)last_n;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_dump_per_cpu(kymo_write write, void *context, size_t last_n) {
    (void)write, (void)context, (void)last_n;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_dump_on_panic(kymo_write write, void *context, size_t last_n) {
    (void)write, (void)context, (void)last_n;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_get(size_t index, struct kymo_record *record, char *text, size_t size) {
    (void)index, (void)record, (void)text, (void)size;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE void kymo_clear(void) {}
KYMO_INLINE size_t kymo_memory_needed(void) { return 0; }
KYMO_INLINE int32_t kymo_perf_record(const struct kymo_perf *perf, const struct kymo_config *config,
                                     const struct kymo_perf_options *options) {
    (void)perf, (void)config, (void)options;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_perf_gather(const struct kymo_perf *perf, const char *output) {
    (void)perf, (void)output;
    return -KYMO_EOPNOTSUPP;
}
KYMO_INLINE int32_t kymo_perf_options(struct kymo_perf_options *options, int count,
                                      const char *const *words) {
    (void)options, (void)count, (void)words;
    return -KYMO_EOPNOTSUPP;
}

#endif

/* What the sender has sent and dropped so far. */
KYMO_INLINE struct kymo_sent kymo_sent(const struct kymo_sender *sender) { return sender->sent; }

/* When a thing was named last: kept beside its number, zero at first and again whenever the number or
 * the name becomes another's. kymo_thread_named and those like it stand in front of the events that
 * use the number, and record the name where it is due: once in a session, and in a flight recorder
 * again before the ring of names has rolled over it. A name without room is tried again. */
struct kymo_name_epoch {
    uint32_t epoch;
};

/* ---- How events are recorded: for the macros and functions below, not for kernels ---- */

#ifndef KYMO_OFF

void kymo_record_0(uint32_t id);
void kymo_record_1(uint32_t id, uint32_t a);
void kymo_record_2(uint32_t id, uint32_t a, uint32_t b);
void kymo_record_3(uint32_t id, uint32_t a, uint32_t b, uint32_t c);
void kymo_record_4(uint32_t id, uint32_t a, uint32_t b, uint32_t c, uint32_t d);
void kymo_record_0_masked(uint64_t time, uint32_t id);
void kymo_record_1_masked(uint64_t time, uint32_t id, uint32_t a);
void kymo_record_2_masked(uint64_t time, uint32_t id, uint32_t a, uint32_t b);
void kymo_record_3_masked(uint64_t time, uint32_t id, uint32_t a, uint32_t b, uint32_t c);
void kymo_record_4_masked(uint64_t time, uint32_t id, uint32_t a, uint32_t b, uint32_t c,
                          uint32_t d);
void kymo_record_words(uint32_t id, const uint32_t *words, uint32_t count);
void kymo_record_words_masked(uint64_t time, uint32_t id, const uint32_t *words, uint32_t count);
bool kymo_record_name(uint32_t id, const uint32_t *words, uint32_t count);
uint32_t kymo_name_due(const struct kymo_name_epoch *named);
void kymo_name_recorded(struct kymo_name_epoch *named, uint32_t epoch);
uint32_t kymo_put_text(uint32_t *words, uint32_t at, const char *text, size_t size, uint32_t max);

/* Of the kernel's own counters: additions and values that were lost, because the memory has no words
 * for their CPU. */
size_t kymo_uncounted(void);

void kymo_count(uint32_t word, size_t by);
void kymo_count_masked(uint32_t word, size_t by);
void kymo_observe(uint32_t word, uint64_t value);
void kymo_observe_masked(uint32_t word, uint64_t value);
extern const uint8_t kymo_counters_library[];

#if defined(__GNUC__)
extern uint8_t kymo_counted_memory[];
typedef size_t __attribute__((may_alias)) kymo_own_word;

/* kymo_count_masked, inlined: a load, an addition and a store, and what leads to this CPU's words. */
KYMO_INLINE void kymo_count_masked_(uint32_t word, size_t by) {
    const uint32_t cpu = KYMO_CPU();
    if (cpu == 0u || cpu < kymo_memory_cpus) {
        volatile kymo_own_word *words = (volatile kymo_own_word *)(void *)&kymo_counted_memory[
            KYMO_BLOCKS_ + KYMO_STRIDE_(0u) + (size_t)cpu * kymo_memory_stride];
        words[word] = words[word] + by;
    } else {
        kymo_count_masked(word, by); /* The memory has no words for this CPU: nothing is counted. */
    }
}
#else
/* Nothing would keep inlined code from memory without words for it. */
#define kymo_count_masked_ kymo_count_masked
#endif

/* Whether an event is on: one byte of the first CPU's control blocks. */
#define KYMO_BYTE_(at) (*(const volatile uint8_t *)&kymo_memory[KYMO_BLOCKS_ + (at)])
/* A function, so that `kymo cost` finds each copy of the test that a compiler makes. */
KYMO_INLINE uint32_t kymo_switch_(uint32_t at) { return KYMO_BYTE_(at); }
#define KYMO_EVENT_ON_(id)                                                        \
    KYMO_RARE((id) < 30u ? kymo_switch_(@EVENTS_ON@u + (id))                      \
                         : kymo_switch_(@EVENTS_MORE@u + (id) / 8u) & (1u << (id) % 8u))
#define KYMO_NAME_ON_(id)                                                         \
    KYMO_RARE(kymo_switch_(@NAMES_MORE@u + (id) / 8u) & (1u << (id) % 8u))

/* Puts a field of 1, 2 or 4 bytes at its place; gives the place behind it. */
KYMO_INLINE uint32_t kymo_put_(uint32_t *words, uint32_t at, uint32_t value, uint32_t bytes) {
    at = (at + bytes - 1u) & ~(bytes - 1u);
    if (at % 4u == 0u)
        words[at / 4u] = value;
    else
        words[at / 4u] |= value << (8u * (at % 4u));
    return at + bytes;
}
KYMO_INLINE uint32_t kymo_put_64_(uint32_t *words, uint32_t at, uint64_t value) {
    at = kymo_put_(words, at, (uint32_t)value, 4u);
    return kymo_put_(words, at, (uint32_t)(value >> 32), 4u);
}

#ifdef KYMO_WITH_CONTEXTS
void kymo_record_context(uint32_t id, uintptr_t fp);
#define KYMO_CONTEXT_ON_(id)                                                      \
    KYMO_RARE((id) < 30u ? KYMO_BYTE_(@CONTEXTS_ON@u + (id))                        \
                         : KYMO_BYTE_(@CONTEXTS_MORE@u + (id) / 8u) & (1u << (id) % 8u))

/* Records an event and its context. It has a frame of its own, so that the tracepoint is the first
 * caller. */
static __attribute__((unused, noinline)) void kymo_record_with_context_(
        uint32_t id, const uint32_t *words, uint32_t count) {
    const uintptr_t saved = kymo_port_mask();
    kymo_record_words_masked(KYMO_CLOCK(), id, words, count);
    kymo_record_context(id, (uintptr_t)__builtin_frame_address(0));
    kymo_port_unmask(saved);
}

/* Whether it has recorded the event, because this has a context. */
KYMO_INLINE bool kymo_had_context_(uint32_t id, const uint32_t *words, uint32_t count) {
    if (!KYMO_CONTEXT_ON_(id))
        return false;
    kymo_record_with_context_(id, words, count);
    __asm__ volatile(""); /* No jump instead of the call: its frame is that of the tracepoint. */
    return true;
}
#else
KYMO_INLINE bool kymo_had_context_(uint32_t id, const uint32_t *words, uint32_t count) {
    (void)id, (void)words, (void)count;
    return false;
}
#endif

KYMO_INLINE void kymo_record_(uint32_t id, const uint32_t *words, uint32_t count) {
    if (kymo_had_context_(id, words, count))
        return;
    if (id >= 30u)
        kymo_record_words(id, words, count);
    else if (count == 0u)
        kymo_record_0(id);
    else if (count == 1u)
        kymo_record_1(id, words[0]);
    else if (count == 2u)
        kymo_record_2(id, words[0], words[1]);
    else if (count == 3u)
        kymo_record_3(id, words[0], words[1], words[2]);
    else if (count == 4u)
        kymo_record_4(id, words[0], words[1], words[2], words[3]);
    else
        kymo_record_words(id, words, count);
}
KYMO_INLINE void kymo_record_masked_(uint32_t id, const uint32_t *words, uint32_t count) {
    if (kymo_had_context_(id, words, count))
        return;
    const uint64_t time = KYMO_CLOCK();
    if (id >= 30u)
        kymo_record_words_masked(time, id, words, count);
    else if (count == 0u)
        kymo_record_0_masked(time, id);
    else if (count == 1u)
        kymo_record_1_masked(time, id, words[0]);
    else if (count == 2u)
        kymo_record_2_masked(time, id, words[0], words[1]);
    else if (count == 3u)
        kymo_record_3_masked(time, id, words[0], words[1], words[2]);
    else if (count == 4u)
        kymo_record_4_masked(time, id, words[0], words[1], words[2], words[3]);
    else
        kymo_record_words_masked(time, id, words, count);
}

#endif

/* Calls an event's function: KYMO_TRACE(trace_block_done(sector, error)). With KYMO_OFF the call is
 * type-checked and nothing in it is evaluated. For events and counters of the kernel's own; the
 * events of the vocabulary do so by themselves. */
#ifdef KYMO_OFF
#define KYMO_TRACE(call) ((void)sizeof((call), 0))
#else
#define KYMO_TRACE(call) (call)
#endif

/* ---- The vocabulary: types ---- */

/* Most bytes of a name. Longer ones are cut, at the end of a character, and marked as cut. */
#define KYMO_NAME_BYTES @NAME_BYTES@u
/* The size of a text that ends with a NUL, wherever that is. A name in an array without one is
 * given with the array's size. */
#define KYMO_TO_NUL ((size_t)-1)

@TYPES@
/* The idle thread of the CPU that records the event. */
#define KYMO_TID_IDLE ((kymo_tid)0u)
/* A thread that the kernel does not know at this place. */
#define KYMO_TID_UNKNOWN ((kymo_tid)UINT32_MAX)
/* A CPU that the kernel does not know at this place, or none in particular. */
#define KYMO_CPU_UNKNOWN ((kymo_cpu)UINT32_MAX)

@ENUMS@
/* The ids of the vocabulary's events. */
enum kymo_id {
@IDS@
};

/* ---- The vocabulary: one function an event ----
 *
 * An event that is off costs a load, a test and a branch. The functions ..._masked are for places
 * where interrupts are masked already: interrupt handlers, schedulers. They cost less. */

@FUNCTIONS@
/* ---- Events of the kernel's own ----
 *
 * Declared once, by a list of macros:
 *
 *     #define BLOCK_DONE(FIELD) FIELD(u64, sector) FIELD(i32, error)
 *     #define MY_EVENTS(EVENT, BARE) EVENT(21, block_done, BLOCK_DONE) BARE(22, watchdog)
 *     KYMO_EVENTS(MY_EVENTS)
 *
 * defines trace_block_done(sector, error), trace_watchdog(), and both with _masked. In one C file
 *
 *     KYMO_EVENT_TABLE(my_events, MY_EVENTS)
 *
 * defines the table that KYMO_OWN(config, my_events) puts into the configuration. An event has any
 * number of fields up to 64; a BARE one has none. Ids are 21 to 29 (records of one word and the
 * fields) or 1000 to 2047 (two words). Types of fields: u8 u16 u32 u64, i8 i16 i32 i64, x8 x16 x32 x64 (shown
 * in hexadecimal), flag, and text, of which at most 4 stand behind all others; a text takes two
 * arguments, as a name does. */

#define KYMO_REST_(first, ...) __VA_ARGS__
#define KYMO_REST(...) KYMO_REST_(__VA_ARGS__)

#define KYMO_PARAMETER_u8(name) uint8_t name
#define KYMO_PARAMETER_u16(name) uint16_t name
#define KYMO_PARAMETER_u32(name) uint32_t name
#define KYMO_PARAMETER_u64(name) uint64_t name
#define KYMO_PARAMETER_i8(name) int8_t name
#define KYMO_PARAMETER_i16(name) int16_t name
#define KYMO_PARAMETER_i32(name) int32_t name
#define KYMO_PARAMETER_i64(name) int64_t name
#define KYMO_PARAMETER_x8(name) uint8_t name
#define KYMO_PARAMETER_x16(name) uint16_t name
#define KYMO_PARAMETER_x32(name) uint32_t name
#define KYMO_PARAMETER_x64(name) uint64_t name
#define KYMO_PARAMETER_flag(name) bool name
#define KYMO_PARAMETER_text(name) const char *name, size_t name##_size
#define KYMO_PARAMETER(type, name) , KYMO_PARAMETER_##type(name)

#ifndef KYMO_OFF

#define KYMO_PUT_u8(name) kymo_at = kymo_put_(kymo_words, kymo_at, name, 1u);
#define KYMO_PUT_u16(name) kymo_at = kymo_put_(kymo_words, kymo_at, name, 2u);
#define KYMO_PUT_u32(name) kymo_at = kymo_put_(kymo_words, kymo_at, name, 4u);
#define KYMO_PUT_u64(name) kymo_at = kymo_put_64_(kymo_words, kymo_at, name);
#define KYMO_PUT_i8(name) kymo_at = kymo_put_(kymo_words, kymo_at, (uint8_t)name, 1u);
#define KYMO_PUT_i16(name) kymo_at = kymo_put_(kymo_words, kymo_at, (uint16_t)name, 2u);
#define KYMO_PUT_i32(name) kymo_at = kymo_put_(kymo_words, kymo_at, (uint32_t)name, 4u);
#define KYMO_PUT_i64(name) kymo_at = kymo_put_64_(kymo_words, kymo_at, (uint64_t)name);
#define KYMO_PUT_x8(name) KYMO_PUT_u8(name)
#define KYMO_PUT_x16(name) KYMO_PUT_u16(name)
#define KYMO_PUT_x32(name) KYMO_PUT_u32(name)
#define KYMO_PUT_x64(name) KYMO_PUT_u64(name)
#define KYMO_PUT_flag(name) kymo_at = kymo_put_(kymo_words, kymo_at, name ? 1u : 0u, 1u);
#define KYMO_PUT_text(name)                                                       \
    kymo_at = 4u * kymo_put_text(kymo_words, (kymo_at + 3u) / 4u, name, name##_size, \
                                 KYMO_NAME_BYTES);
#define KYMO_PUT(type, name) KYMO_PUT_##type(name)

#define KYMO_ROOM_u8 1
#define KYMO_ROOM_u16 1
#define KYMO_ROOM_u32 1
#define KYMO_ROOM_u64 2
#define KYMO_ROOM_i8 1
#define KYMO_ROOM_i16 1
#define KYMO_ROOM_i32 1
#define KYMO_ROOM_i64 2
#define KYMO_ROOM_x8 1
#define KYMO_ROOM_x16 1
#define KYMO_ROOM_x32 1
#define KYMO_ROOM_x64 2
#define KYMO_ROOM_flag 1
#define KYMO_ROOM_text (1 + KYMO_NAME_BYTES / 4)
#define KYMO_ROOM(type, name) +KYMO_ROOM_##type

#define KYMO_FUNCTIONS_(id, name, FIELDS)                                         \
    KYMO_ASSERT_ID_(id)                                                           \
    KYMO_INLINE void trace_##name(KYMO_REST(0 FIELDS(KYMO_PARAMETER))) {          \
        if (KYMO_EVENT_ON_((uint32_t)(id))) {                                     \
            uint32_t kymo_words[0 FIELDS(KYMO_ROOM)];                             \
            uint32_t kymo_at = 0;                                                 \
            FIELDS(KYMO_PUT)                                                      \
            kymo_record_(id, kymo_words, (kymo_at + 3u) / 4u);                    \
        }                                                                         \
    }                                                                             \
    KYMO_INLINE void trace_##name##_masked(KYMO_REST(0 FIELDS(KYMO_PARAMETER))) { \
        if (KYMO_EVENT_ON_((uint32_t)(id))) {                                     \
            uint32_t kymo_words[0 FIELDS(KYMO_ROOM)];                             \
            uint32_t kymo_at = 0;                                                 \
            FIELDS(KYMO_PUT)                                                      \
            kymo_record_masked_(id, kymo_words, (kymo_at + 3u) / 4u);             \
        }                                                                         \
    }
#define KYMO_BARE_FUNCTIONS_(id, name)                                            \
    KYMO_ASSERT_ID_(id)                                                           \
    KYMO_INLINE void trace_##name(void) {                                         \
        if (KYMO_EVENT_ON_((uint32_t)(id))) {                                     \
            const uint32_t kymo_none = 0;                                         \
            kymo_record_(id, &kymo_none, 0u);                                     \
        }                                                                         \
    }                                                                             \
    KYMO_INLINE void trace_##name##_masked(void) {                                \
        if (KYMO_EVENT_ON_((uint32_t)(id))) {                                     \
            const uint32_t kymo_none = 0;                                         \
            kymo_record_masked_(id, &kymo_none, 0u);                              \
        }                                                                         \
    }

#define KYMO_FIELD_(type, name) #type " " #name ";"
#define KYMO_ENTRY_(id, name, FIELDS) {id, #name, "" FIELDS(KYMO_FIELD_)},
#define KYMO_BARE_ENTRY_(id, name) {id, #name, ""},

#define KYMO_EVENT_TABLE(table, LIST)                                             \
    static const struct kymo_event table[] = {LIST(KYMO_ENTRY_, KYMO_BARE_ENTRY_)};

#else

#define KYMO_UNUSED_text(name) (void)name##_size;
#define KYMO_UNUSED_u8(name)
#define KYMO_UNUSED_u16(name)
#define KYMO_UNUSED_u32(name)
#define KYMO_UNUSED_u64(name)
#define KYMO_UNUSED_i8(name)
#define KYMO_UNUSED_i16(name)
#define KYMO_UNUSED_i32(name)
#define KYMO_UNUSED_i64(name)
#define KYMO_UNUSED_x8(name)
#define KYMO_UNUSED_x16(name)
#define KYMO_UNUSED_x32(name)
#define KYMO_UNUSED_x64(name)
#define KYMO_UNUSED_flag(name)
#define KYMO_UNUSED(type, name) (void)name; KYMO_UNUSED_##type(name)

#define KYMO_FUNCTIONS_(id, name, FIELDS)                                         \
    KYMO_ASSERT_ID_(id)                                                           \
    KYMO_INLINE void trace_##name(KYMO_REST(0 FIELDS(KYMO_PARAMETER))) {          \
        FIELDS(KYMO_UNUSED)                                                       \
    }                                                                             \
    KYMO_INLINE void trace_##name##_masked(KYMO_REST(0 FIELDS(KYMO_PARAMETER))) { \
        FIELDS(KYMO_UNUSED)                                                       \
    }
#define KYMO_BARE_FUNCTIONS_(id, name)                                            \
    KYMO_ASSERT_ID_(id)                                                           \
    KYMO_INLINE void trace_##name(void) {}                                        \
    KYMO_INLINE void trace_##name##_masked(void) {}

#define KYMO_EVENT_TABLE(table, LIST)                                             \
    static const struct kymo_event table[] = {{0, 0, 0}};

#endif

#define KYMO_ASSERT_ID_(id)                                                       \
    KYMO_ASSERT(((id) >= 21 && (id) <= 29) || ((id) >= 1000 && (id) <= 2047),     \
                "the ids of a kernel's own events are 21 to 29 and 1000 to 2047")

/* Two events with one id do not compile: their cases are the same. */
#define KYMO_CASE_(id, name, FIELDS) case (id):
#define KYMO_BARE_CASE_(id, name) case (id):

/* Defines the functions of the kernel's own events, in every file that records them. */
#define KYMO_EVENTS(LIST)                                                         \
    LIST(KYMO_FUNCTIONS_, KYMO_BARE_FUNCTIONS_)                                   \
    KYMO_INLINE bool kymo_is_in_##LIST(uint32_t id) {                             \
        switch (id) {                                                             \
            LIST(KYMO_CASE_, KYMO_BARE_CASE_)                                     \
            return true;                                                          \
        default:                                                                  \
            return false;                                                         \
        }                                                                         \
    }

/* Puts a table into a configuration. */
#define KYMO_OWN(config, table)                                                   \
    ((config).own = (table), (config).own_count = sizeof(table) / sizeof((table)[0]))

/* ---- Counters of the kernel's own ----
 *
 * Numbers of each CPU that cost a few instructions, and are there whether a session runs or not.
 * Declared once, by a list of macros, in a header:
 *
 *     #define MY_COUNTERS(COUNTER, GAUGE, HISTOGRAM) \
 *         COUNTER(packets_sent, packets) GAUGE(buffers_used, buffers) HISTOGRAM(request_size, bytes)
 *     KYMO_COUNTERS(MY_COUNTERS)
 *
 * defines count_packets_sent(by), count_buffers_used(by), which also goes down, and
 * observe_request_size(value), each also with _masked, for places where interrupts are masked. Those
 * load, add and store: an NMI that counts in between is lost. What an NMI counts is therefore counted
 * without _masked everywhere. In one C file
 *
 *     KYMO_MEMORY_COUNTING(cpus, bytes)
 *     KYMO_COUNTER_TABLE(my_counters, MY_COUNTERS)
 *
 * define the memory and the table that the configuration's `counters` leads to. A kernel has one
 * list, of one counter at least. Names and units have letters, digits and _, up to 64. A counter or a
 * gauge takes a word of each CPU, a histogram @HISTOGRAM_WORDS@: bucket 0 counts the zeros, bucket n the values
 * of n bits, and the last word is the sum. There are 4096 words at most. Words wrap around. */

#ifndef KYMO_OFF

#define KYMO_COUNTER_FUNCTIONS_(name, unit)                                       \
    KYMO_INLINE void count_##name(size_t by) {                                    \
        kymo_count((uint32_t)kymo_word_##name, (size_t)by);                       \
    }                                                                             \
    KYMO_INLINE void count_##name##_masked(size_t by) {                           \
        kymo_count_masked_((uint32_t)kymo_word_##name, (size_t)by);               \
    }
#define KYMO_GAUGE_FUNCTIONS_(name, unit)                                         \
    KYMO_INLINE void count_##name(long by) {                                      \
        kymo_count((uint32_t)kymo_word_##name, (size_t)by);                       \
    }                                                                             \
    KYMO_INLINE void count_##name##_masked(long by) {                             \
        kymo_count_masked_((uint32_t)kymo_word_##name, (size_t)by);               \
    }
#define KYMO_OBSERVE_FUNCTIONS_(name, unit)                                       \
    KYMO_INLINE void observe_##name(uint64_t value) {                             \
        kymo_observe((uint32_t)kymo_word_##name, value);                          \
    }                                                                             \
    KYMO_INLINE void observe_##name##_masked(uint64_t value) {                    \
        kymo_observe_masked((uint32_t)kymo_word_##name, value);                   \
    }
#define KYMO_COUNTER_ENTRY_(name, unit) {(uint32_t)kymo_word_##name, KYMO_COUNTER_GROWS, #name, #unit},
#define KYMO_GAUGE_ENTRY_(name, unit) {(uint32_t)kymo_word_##name, KYMO_COUNTER_GAUGE, #name, #unit},
#define KYMO_HISTOGRAM_ENTRY_(name, unit)                                         \
    {(uint32_t)kymo_word_##name, KYMO_COUNTER_HISTOGRAM, #name, #unit},

#define KYMO_COUNTER_TABLE(table, LIST)                                           \
    static const struct kymo_own_counter table##_list[] = {                       \
        LIST(KYMO_COUNTER_ENTRY_, KYMO_GAUGE_ENTRY_, KYMO_HISTOGRAM_ENTRY_)};     \
    static const struct kymo_counters table = {                                   \
        table##_list, sizeof(table##_list) / sizeof(table##_list[0]),             \
        (uint32_t)kymo_counter_words, kymo_counters_library};

#else

#define KYMO_COUNTER_FUNCTIONS_(name, unit)                                       \
    KYMO_INLINE void count_##name(size_t by) { (void)by; }                        \
    KYMO_INLINE void count_##name##_masked(size_t by) { (void)by; }
#define KYMO_GAUGE_FUNCTIONS_(name, unit)                                         \
    KYMO_INLINE void count_##name(long by) { (void)by; }                          \
    KYMO_INLINE void count_##name##_masked(long by) { (void)by; }
#define KYMO_OBSERVE_FUNCTIONS_(name, unit)                                       \
    KYMO_INLINE void observe_##name(uint64_t value) { (void)value; }              \
    KYMO_INLINE void observe_##name##_masked(uint64_t value) { (void)value; }

#define KYMO_COUNTER_TABLE(table, LIST) static const struct kymo_counters table = {0, 0, 0, 0};

#endif

#define KYMO_WORD_(name, unit) kymo_word_##name,
#define KYMO_WORDS_(name, unit)                                                   \
    kymo_word_##name, kymo_last_word_of_##name = kymo_word_##name + @HISTOGRAM_WORDS@ - 1,
/* What a declaration takes in the metadata. */
#define KYMO_TEXT_(name, unit) +@COUNTER_BYTES@ + 2 * (int)sizeof(#name) + (int)sizeof(#unit)

/* Numbers the words of the kernel's own counters, and defines their functions. */
#define KYMO_COUNTERS(LIST)                                                       \
    enum kymo_counter_word {                                                      \
        LIST(KYMO_WORD_, KYMO_WORD_, KYMO_WORDS_) kymo_counter_words              \
    };                                                                            \
    enum kymo_counter_byte {                                                      \
        kymo_counter_bytes = @COUNTING_BYTES@ LIST(KYMO_TEXT_, KYMO_TEXT_, KYMO_TEXT_)  \
    };                                                                            \
    KYMO_ASSERT(kymo_counter_words <= 4096, "the counters of a CPU take 4096 words at most") \
    LIST(KYMO_COUNTER_FUNCTIONS_, KYMO_GAUGE_FUNCTIONS_, KYMO_OBSERVE_FUNCTIONS_)

#ifdef __cplusplus
}
#endif

#endif
