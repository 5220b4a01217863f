/* Four harts: workers that compete for a table, one that sleeps, and two programs. */
#include "kernel.h"
#include "kymo.h"

#define TURNS 100u
#define ROUNDS 50u

static struct thread first, workers[4], sleeper, programs[2];
static struct mutex table = MUTEX("table");
static volatile uint32_t at_the_table;

static void compute(uint32_t turns) {
    for (volatile uint32_t i = 0; i < turns; i++)
        ;
}

static void is_worker(void *argument) {
    (void)argument;
    for (uint32_t i = 0; i < TURNS; i++) {
        mutex_lock(&table);
        at_the_table++;
        compute(1000);
        if (at_the_table != 1) {
            print("kernel: two threads at the table\n");
            machine_exit(1);
        }
        at_the_table--;
        mutex_unlock(&table);
        compute(8000);
    }
}

static void is_sleeper(void *argument) {
    (void)argument;
    for (uint32_t i = 0; i < 10; i++)
        thread_sleep(3);
}

static void is_first(void *argument) {
    (void)argument;
    static const char *const names[] = {"worker 1", "worker 2", "worker 3", "worker 4"};
    kymo_lock_name((uintptr_t)&table, KYMO_LOCK_KIND_MUTEX, table.name, KYMO_TO_NUL);
    for (size_t i = 0; i < 4; i++)
        thread_create(&workers[i], names[i], is_worker, NULL);
    thread_create(&sleeper, "sleeper", is_sleeper, NULL);
    program_create(&programs[0], "program 1", program_main, ROUNDS);
    program_create(&programs[1], "program 2", program_main, ROUNDS);
    for (size_t i = 0; i < 4; i++)
        thread_join(&workers[i]);
    thread_join(&sleeper);
    thread_join(&programs[0]);
    thread_join(&programs[1]);
    harts_hold();
    tracing_stop();
    for (size_t i = 0; i < HARTS; i++) {
        const struct hart *hart = &harts[i];
        print("hart %u: %u switches, %u wakeups, ", (unsigned)i, hart->switches, hart->wakeups);
        print("%u interrupts, %u syscalls, %u waits\n", hart->interrupts, hart->syscalls,
              hart->waits);
    }
    machine_exit(0);
}

/* Each hart, with interrupts masked. */
_Noreturn void hart_main(void) {
    struct hart *hart = this_hart();
    timer_start(hart);
    __atomic_store_n(&hart->runs, true, __ATOMIC_RELEASE);
    interrupts_restore(8);
    scheduler_run();
}

_Noreturn void main(void) {
    for (struct hart *hart = harts; hart < &harts[HARTS]; hart++) {
        hart->idle.name = "idle";
        hart->running = &hart->idle;
    }
    tracing_start();
    thread_create(&first, "first", is_first, NULL);
    harts_start();
    hart_main();
}
