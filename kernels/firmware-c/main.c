#include "apps/app.h"
#include "rtos.h"

static void first(void *argument) {
    (void)argument;
    app();
    tracing_stop();
    machine_exit(0);
}

int main(void) {
    tracing_start();
    scheduler_start(first);
}
