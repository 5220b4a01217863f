/* A schedule that is written down, and what it comes to: the kernel prints its own counts. */
#include <kymo.h>
#include <zephyr/sys/printk.h>

#include "kernel.h"

#define ROUNDS 10u
#define TIMER 7u
#define LINE 11u

#define IS_CURRENT(thread)                                                                         \
    do {                                                                                           \
        if (current != (thread))                                                                   \
            fail(#thread " should run");                                                           \
    } while (0)

static struct thread main_thread, idle, control, sensor, worker, logger;

static void begins(void) {
    kernel_boot(&main_thread, &idle);
    kymo_irq_name(TIMER, "timer", KYMO_TO_NUL);
    kymo_irq_name(LINE, "sensor line", KYMO_TO_NUL);
    runs(50);
    k_thread_create_named(&control, "control", 2);
    runs(10);
    k_thread_create_named(&sensor, "sensor", 1);
    k_thread_create_named(&worker, NULL, 2);
    k_thread_name_set(&worker, "worker");
    k_thread_create_named(&logger, "logger", 5);
    runs(5);
    k_sleep();
    IS_CURRENT(&sensor);
    runs(20);
    pends(false);
    IS_CURRENT(&control);
}

static void tick(struct thread *wakes) {
    isr_begins(TIMER);
    runs(2);
    if (wakes != NULL)
        readies(wakes);
    isr_ends();
}

/* Two threads of one priority take turns; one that is more urgent is woken by an interrupt, inside
 * of which another one comes. */
static void round(unsigned number) {
    struct thread *const one = current, *const other = one == &worker ? &control : &worker;
    runs(30);
    tick(NULL);
    IS_CURRENT(one);
    runs(7);
    isr_begins(LINE);
    runs(3);
    tick(NULL);
    readies(&sensor);
    runs(1);
    isr_ends();
    IS_CURRENT(&sensor);
    runs(15 + number);
    pends(number % 2 == 0);
    IS_CURRENT(one);
    isr_begins(TIMER);
    runs(2);
    slice_ends();
    isr_ends();
    IS_CURRENT(other);
    runs(11);
    if (number % 3 == 0) {
        k_yield();
        IS_CURRENT(one);
        runs(4);
    }
}

/* All states: waiting with and without a limit of time, asleep, suspended, ended by itself and by
 * another thread. */
static void ends_all(void) {
    IS_CURRENT(&control);
    pends(true);
    IS_CURRENT(&worker);
    runs(25);
    pends(false);
    IS_CURRENT(&logger);
    runs(60);
    tick(&control);
    IS_CURRENT(&control);
    runs(9);
    k_sleep();
    IS_CURRENT(&logger);
    runs(8);
    k_thread_abort(&logger);
    IS_CURRENT(&idle);
    runs(500);
    tick(&main_thread);
    IS_CURRENT(&main_thread);
    runs(12);
    k_thread_suspend(&control);
    k_thread_resume(&control);
    k_sleep();
    IS_CURRENT(&control);
    runs(6);
    k_thread_suspend(&control);
    IS_CURRENT(&idle);
    runs(100);
    tick(&main_thread);
    IS_CURRENT(&main_thread);
    k_thread_resume(&control);
    k_thread_priority_set(&control, 3);
    k_sleep();
    IS_CURRENT(&control);
    runs(3);
    k_thread_abort(&control);
    IS_CURRENT(&idle);
    runs(40);
    tick(&main_thread);
    IS_CURRENT(&main_thread);
    runs(5);
    k_thread_abort(&worker);
    accounts();
}

static void print(const struct thread *thread) {
    printk("%s %u %u %u\n", thread->zephyr.name, thread->cycles, thread->switches, thread->wakeups);
}

int main(void) {
    begins();
    for (unsigned number = 0; number < ROUNDS; number++)
        round(number);
    ends_all();
    kymo_stop(KYMO_TRACE);
    printk("thread cycles switches wakeups\n");
    print(&main_thread);
    print(&idle);
    print(&control);
    print(&sensor);
    print(&worker);
    print(&logger);
    printk("cycles %u\n", cycles_since_boot());
    printk("interrupts %u\ncreations %u\nends %u\n", interrupts, creations, ends);
    return 0;
}
