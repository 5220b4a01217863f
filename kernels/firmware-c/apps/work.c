/* A small device: a sensor is read at intervals, its values are filtered and logged, two workers
 * compete for a bus, and a task makes a mistake. */
#include "app.h"
#include "../events.h"
#include "../rtos.h"

#define SAMPLES 40u
#define TURNS 60u

static struct task tasks[6];
static uint32_t words[4];
static struct messages values = MESSAGES(words);
static uint8_t bytes[32];
static struct pipe lines = PIPE(bytes);
static struct mutex bus = MUTEX("bus");
static struct semaphore work_done = SEMAPHORE("work_done", 0);
static volatile uint32_t on_the_bus;

/* Takes the processor for a while. */
static void compute(uint32_t turns) {
    for (volatile uint32_t i = 0; i < turns; i++)
        ;
}

static void is_sensor(void *argument) {
    (void)argument;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        task_delay(2);
        trace_sample_taken(i, (int32_t)(i * i % 50u) - 25);
        message_send(&values, i * i % 50u);
    }
}

static void is_filter(void *argument) {
    (void)argument;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        sum += message_receive(&values);
        compute(2000);
        if (sum % 7u == 0u)
            trace_alarm();
        char line[8] = {'s', 'u', 'm', ' ', (char)('0' + sum / 1000u % 10u),
                        (char)('0' + sum / 100u % 10u), (char)('0' + sum / 10u % 10u),
                        (char)('0' + sum % 10u)};
        pipe_write(&lines, line, sizeof line);
    }
}

static void is_logger(void *argument) {
    (void)argument;
    uint8_t line[5];
    for (size_t rest = 8u * SAMPLES; rest > 0;) {
        rest -= pipe_read(&lines, line, sizeof line);
        compute(1000);
    }
    semaphore_post(&work_done);
}

static void is_worker(void *argument) {
    (void)argument;
    for (uint32_t i = 0; i < TURNS; i++) {
        mutex_lock(&bus);
        on_the_bus++;
        compute(20000);
        if (on_the_bus != 1) {
            print("firmware: two tasks on the bus\n");
            machine_exit(1);
        }
        on_the_bus--;
        mutex_unlock(&bus);
        compute(500);
    }
    semaphore_post(&work_done);
}

static void is_mistaken(void *argument) {
    (void)argument;
    task_delay(20);
    __asm__ volatile("unimp");
}

void app(void) {
    kymo_lock_name((uintptr_t)&bus, KYMO_LOCK_KIND_MUTEX, bus.name, KYMO_TO_NUL);
    kymo_lock_name((uintptr_t)&work_done, KYMO_LOCK_KIND_SEMAPHORE, work_done.name, KYMO_TO_NUL);
    task_create(&tasks[0], "logger", 3, is_logger, NULL);
    task_create(&tasks[1], "filter", 4, is_filter, NULL);
    task_create(&tasks[2], "sensor", 5, is_sensor, NULL);
    task_create(&tasks[3], "worker 1", 2, is_worker, NULL);
    task_create(&tasks[4], "worker 2", 2, is_worker, NULL);
    task_create(&tasks[5], "mistaken", 6, is_mistaken, NULL);
    for (uint32_t i = 0; i < 3; i++)
        semaphore_wait(&work_done);
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        task_join(&tasks[i]);
    uintptr_t saved = interrupts_mask();
    tracing_stop();
    print("firmware: %u switches, %u interrupts, %u exceptions, ", statistics.switches,
          statistics.interrupts, statistics.exceptions);
    print("%u wakeups, %u messages, %u bytes\n", statistics.wakeups, statistics.received,
          statistics.read);
    interrupts_restore(saved);
}
