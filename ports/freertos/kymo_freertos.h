/* Kymo's hooks in FreeRTOS: include this at the end of FreeRTOSConfig.h, where assembly includes
 * that too, between #ifndef __ASSEMBLER__ and #endif. */
#include "kymo.h"

/* tasks.c includes freertos_tasks_c_additions.h at its end. */
#define configINCLUDE_FREERTOS_TASK_C_ADDITIONS_H 1
extern void *kymo_leaves;
void kymo_freertos_switched_in(void);
/* The number of the interrupt that runs. */
kymo_irq kymo_freertos_irq(void);

/* Tasks: this stands in tasks.c. `uxTaskNumber`, which FreeRTOS leaves to tracers, is 1 for a task
 * that waits: ready tasks, too, are moved to another list when their priority changes. */
#define KYMO_TID(of) ((void *)(of) == xIdleTaskHandles[0] ? KYMO_TID_IDLE : (of)->uxTCBNumber)
#define KYMO_PARENT() (xSchedulerRunning ? KYMO_TID(pxCurrentTCB) : KYMO_TID_IDLE)
#define KYMO_TICKS(ticks) ((uint64_t)(ticks) * kymo_port_frequency() / configTICK_RATE_HZ)
#define traceTASK_SWITCHED_OUT() (kymo_leaves = pxCurrentTCB)
#define traceTASK_SWITCHED_IN() kymo_freertos_switched_in()
#define traceTASK_CREATE(of)                                                                       \
    kymo_thread_name(KYMO_TID(of), (of)->pcTaskName, configMAX_TASK_NAME_LEN);                     \
    KYMO_IF(KYMO_TID(of) != KYMO_TID_IDLE,                                                         \
            kymo_thread_create(KYMO_TID(of), 0, KYMO_PARENT(), (int16_t)(of)->uxPriority))
#define traceTASK_DELETE(of) kymo_thread_exit(KYMO_TID(of), 0, KYMO_THREAD_STATE_RUNNABLE)
#define traceMOVED_TASK_TO_READY_STATE(of)                                                         \
    ((of)->uxTaskNumber ? kymo_sched_wakeup(KYMO_TID(of), KYMO_TID_UNKNOWN, 0) : (void)0,          \
     (of)->uxTaskNumber = 0)
#define traceTASK_SUSPEND(of) kymo_thread_suspend(KYMO_TID(of))
#define traceTASK_RESUME(of) kymo_thread_resume(KYMO_TID(of))
#define traceTASK_RESUME_FROM_ISR(of) kymo_thread_resume(KYMO_TID(of))
#define traceTASK_DELAY() kymo_thread_delay(KYMO_TID(pxCurrentTCB), KYMO_TICKS(xTicksToDelay))
#define traceTASK_DELAY_UNTIL(tick)                                                                \
    kymo_thread_delay(KYMO_TID(pxCurrentTCB), KYMO_TICKS((tick) - xTickCount))
#define KYMO_PRIORITY(of, from, to)                                                                \
    kymo_sched_pi_setprio(KYMO_TID(of), (int16_t)(from), (int16_t)(to), 0)
#define traceTASK_PRIORITY_SET(of, to) KYMO_PRIORITY(of, (of)->uxPriority, to)
#define traceTASK_PRIORITY_INHERIT(of, to) KYMO_PRIORITY(of, (of)->uxBasePriority, to)
#define traceTASK_PRIORITY_DISINHERIT(of, to) KYMO_PRIORITY(of, (of)->uxPriority, to)

/* Queues, semaphores and mutexes: this stands in queue.c, before the queue is changed. A new mutex
 * is given once by nobody. `xEntryTimeSet` says whether a task has found the lock taken. */
#define KYMO_IS_QUEUE(of) ((of)->ucQueueType % queueQUEUE_TYPE_SET == queueQUEUE_TYPE_BASE)
#define KYMO_KIND(of) (enum kymo_lock_kind)((of)->ucQueueType % 3 != queueQUEUE_TYPE_MUTEX)
#define KYMO_LOCK(of) (uintptr_t)(of), KYMO_KIND(of)
#define KYMO_IF(condition, call) ((condition) ? (call) : (void)0)
#define KYMO_IS_NEW(of) (KYMO_KIND(of) == 0 && (of)->u.xSemaphore.xMutexHolder == NULL)
#define traceQUEUE_SEND(of)                                                                        \
    (KYMO_IS_QUEUE(of) ? kymo_queue_send((uintptr_t)(of), (of)->uxMessagesWaiting + 1)             \
                       : KYMO_IF(!KYMO_IS_NEW(of), kymo_lock_release(KYMO_LOCK(of))))
#define traceQUEUE_SEND_FROM_ISR(of) traceQUEUE_SEND(of)
#define KYMO_TAKE(of, waited)                                                                      \
    (KYMO_IS_QUEUE(of) ? kymo_queue_receive((uintptr_t)(of), (of)->uxMessagesWaiting - 1)          \
                       : kymo_lock_acquired(KYMO_LOCK(of), waited))
#define traceQUEUE_RECEIVE(of) KYMO_TAKE(of, xEntryTimeSet != pdFALSE)
#define traceQUEUE_RECEIVE_FROM_ISR(of) KYMO_TAKE(of, false)
#define traceBLOCKING_ON_QUEUE_RECEIVE(of)                                                         \
    KYMO_IF(!KYMO_IS_QUEUE(of), kymo_lock_wait((uintptr_t)(of), KYMO_TID_UNKNOWN, KYMO_KIND(of)))
#define traceQUEUE_RECEIVE_FAILED(of)                                                              \
    KYMO_IF(!KYMO_IS_QUEUE(of), kymo_lock_failed((uintptr_t)(of), -KYMO_EAGAIN, KYMO_KIND(of)))
#define traceQUEUE_REGISTRY_ADD(of, name) kymo_lock_name(KYMO_LOCK(of), name, KYMO_TO_NUL)

/* Handlers call traceISR_ENTER, and portYIELD_FROM_ISR or traceISR_EXIT at their end. */
#define traceISR_ENTER() kymo_irq_handler_entry(kymo_freertos_irq())
#define traceISR_EXIT() kymo_irq_handler_exit(kymo_freertos_irq())
#define traceISR_EXIT_TO_SCHEDULER() traceISR_EXIT()
#ifdef __riscv
/* The tick's handler of this architecture calls none of them. FreeRTOS also calls the function
 * from its critical sections, for ticks that it has put off. */
#define traceENTER_xTaskIncrementTick() KYMO_IF(xCriticalNesting == 0, traceISR_ENTER())
#define traceRETURN_xTaskIncrementTick(yields) KYMO_IF(xCriticalNesting == 0, traceISR_EXIT())
#endif
