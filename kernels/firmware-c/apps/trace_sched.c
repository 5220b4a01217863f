/* Two tasks, A and B, with each event of a scheduler's trace once, in a known order. Before, a
 * flood of yields overwrites the oldest events of the flight recorder, and the trace gets their number;
 * then come A and B, whose events are the retained ones. */
#include "app.h"
#include "../events.h"
#include "../rtos.h"

/* More than the rings hold. */
#define YIELDS (2 * (256 + 8))

static struct task flooder, a, b;
static volatile bool enough;

static void is_flooder(void *argument) {
    (void)argument;
    for (uint32_t i = 0; i < YIELDS; i++)
        task_yield();
    struct kymo_counts counts;
    if (kymo_counts(&counts) == 0) {
        trace_overwritten(counts.overwritten);
        print("firmware: %u events retained, %u overwritten, %u in all\n",
              (unsigned)counts.retained, (unsigned)counts.overwritten,
              (unsigned)(counts.retained + counts.overwritten + counts.discarded));
    }
}

static void check(bool holds, const char *what) {
    if (!holds) {
        print("firmware: %s failed\n", what);
        machine_exit(1);
    }
}

static void is_a(void *argument) {
    (void)argument;
    task_yield();
    task_delay(2);
    check(task_suspend(&b), "suspending B");
    check(!task_suspend(&b), "that B cannot be suspended twice");
    check(task_resume(&b), "resuming B");
    check(!task_resume(&b), "that B cannot be resumed twice");
    enough = true;
}

/* Records nothing while it waits, which would fill the rings. */
static void is_b(void *argument) {
    (void)argument;
    while (!enough)
        ;
}

void app(void) {
    task_create(&flooder, "flooder", 1, is_flooder, NULL);
    task_join(&flooder);
    /* This task is more urgent than both: they begin when it waits for them. */
    task_create(&a, "A", 4, is_a, NULL);
    task_create(&b, "B", 4, is_b, NULL);
    task_join(&a);
    task_join(&b);
    print("firmware: trace_sched is done\n");
}
