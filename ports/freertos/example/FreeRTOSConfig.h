/* FreeRTOS for QEMU's RISC-V machine virt. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#define configCPU_CLOCK_HZ 10000000
#define configMTIME_BASE_ADDRESS 0x200bff8
#define configMTIMECMP_BASE_ADDRESS 0x2004000
#define configISR_STACK_SIZE_WORDS 512
#define configTICK_RATE_HZ 1000
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configMINIMAL_STACK_SIZE 256
#define configTOTAL_HEAP_SIZE 65536
#define configMAX_PRIORITIES 6
#define configMAX_TASK_NAME_LEN 16
#define configUSE_PREEMPTION 1
#define configUSE_PORT_OPTIMISED_TASK_SELECTION 0
#define configUSE_IDLE_HOOK 0
#define configUSE_TICK_HOOK 1
#define configUSE_MUTEXES 1
#define configUSE_RECURSIVE_MUTEXES 1
#define configUSE_COUNTING_SEMAPHORES 1
#define configQUEUE_REGISTRY_SIZE 8
#define INCLUDE_vTaskPrioritySet 1
#define INCLUDE_xTaskDelayUntil 1

/* What the hooks need. */
#define configUSE_TRACE_FACILITY 1
#define INCLUDE_vTaskDelay 1
#define INCLUDE_vTaskDelete 1
#define INCLUDE_vTaskSuspend 1

void application_failed(const char *file, int line);
#define configASSERT(condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            application_failed(__FILE__, __LINE__);                                                \
    } while (0)

/* port: begin */
#include "kymo_freertos.h"
/* port: end */

#endif
