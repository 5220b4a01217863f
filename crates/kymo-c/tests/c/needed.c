/* A session in SIZE bytes of memory, for CPUS CPUs; prints what kymo_start says, and how many bytes
 * it needs. */
#include "one_cpu.h"
#include <stdio.h>

KYMO_MEMORY(CPUS, SIZE)

static void synchronize(void) {}

int main(void) {
    struct kymo_config config = {0};
    config.packet_size = 256;
    config.cpus = CPUS;
    config.synchronize = synchronize;
    int32_t started = kymo_start(KYMO_TRACE, &config);
    printf("%d %zu\n", (int)started, kymo_memory_needed());
    return started > 0 && kymo_finish(KYMO_TRACE, NULL) != 0;
}
