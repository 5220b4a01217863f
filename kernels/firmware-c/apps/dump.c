/* What was recorded is shown on the console: a shell's commands, and a panic's last words. */
#include "app.h"
#include "../events.h"
#include "../rtos.h"

static struct task worker, greedy;
static struct mutex bus = MUTEX("bus");

static int32_t put(void *context, const char *text, size_t size) {
    (void)context;
    console_write(text, size);
    return 0;
}

static void is_worker(void *argument) {
    (void)argument;
    mutex_lock(&bus);
    trace_sample_taken(7, -7);
    task_yield();
    mutex_unlock(&bus);
    trace_alarm();
}

static void is_greedy(void *argument) {
    (void)argument;
    mutex_lock(&bus);
    mutex_unlock(&bus);
}

static void show_each(void) {
    struct kymo_record record;
    char text[120];
    for (size_t index = 0; kymo_get(index, &record, text, sizeof text) > 0; index++)
        if (record.id == 21)
            print("record %u: task %u, %u bytes, value -%u: %s\n", (unsigned)index,
                  (unsigned)record.tid, (unsigned)record.size, -(unsigned)record.words[1], text);
}

void app(void) {
    /* Nobody switches to the two before both are there. */
    uintptr_t saved = interrupts_mask();
    kymo_lock_name((uintptr_t)&bus, KYMO_LOCK_KIND_MUTEX, bus.name, KYMO_TO_NUL);
    task_create(&worker, "worker", 2, is_worker, NULL);
    task_create(&greedy, "greedy", 2, is_greedy, NULL);
    task_join(&worker);
    task_join(&greedy);
    print("- dump\n");
    kymo_dump(put, NULL, 100);
    print("- newest\n");
    kymo_dump_per_cpu(put, NULL, 2);
    print("- records\n");
    show_each();
    print("- cleared\n");
    kymo_clear();
    trace_sample_taken(8, -8);
    kymo_dump(put, NULL, 100);
    show_each();
    print("- panic\n");
    trace_alarm();
    kymo_dump_on_panic(put, NULL, 1);
    print("- end\n");
    interrupts_restore(saved);
}
