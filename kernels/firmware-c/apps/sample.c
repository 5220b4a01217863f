/* Where the time goes: three functions whose work is one, two and three parts, in a task that rests
 * now and then, and one that is called by two others. */
#include "app.h"
#include "../events.h"
#include "../rtos.h"

#define ROUNDS 1000u
#define PART 8000u

static struct task worker;
static struct semaphore work_done = SEMAPHORE("work_done", 0);

#define WORK(name, parts)                                                         \
    static __attribute__((noinline)) void name(void) {                            \
        for (volatile uint32_t i = 0; i < (parts)*PART; i++)                      \
            ;                                                                     \
    }
WORK(one_part, 1u)
WORK(two_parts, 2u)
WORK(three_parts, 3u)

static void is_worker(void *argument) {
    (void)argument;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        one_part();
        two_parts();
        three_parts();
        if (i % 20u == 0u)
            task_delay(2);
    }
    semaphore_post(&work_done);
}

void app(void) {
    task_create(&worker, "worker", 2, is_worker, NULL);
    semaphore_wait(&work_done);
    print("firmware: the work is done\n");
}
