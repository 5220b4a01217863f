/* An event that records its callers and counts, for stack.c. */
#define KYMO_WITH_CONTEXTS
#include "../events.h"
#include "../rtos.h"

static void here(struct kymo_sample *sample) {
    extern const char text_begin[], text_end[];
    sample->tid = running->id;
    sample->text[0] = (uintptr_t)text_begin;
    sample->text[1] = (uintptr_t)text_end;
    sample->stacks[0].begin = (uintptr_t)running->stack;
    sample->stacks[0].end = (uintptr_t)(running->stack + STACK_WORDS);
}
KYMO_SAMPLER_OF_EVENTS(sampler, 1, here)
const struct kymo_sampler *const sampler_of_events = &sampler;

int32_t event_with_contexts(void) { return trace_sample_taken(1, 2), 0; }

int32_t switch_contexts_on(void) {
    const int32_t error = kymo_switch_stacks(KYMO_TRACE, 21, true);
    return error < 0 ? error : kymo_switch_counts(KYMO_COUNT, 21, true);
}
