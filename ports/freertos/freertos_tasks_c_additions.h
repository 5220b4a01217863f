/* Part of tasks.c, which includes this at its end. */
void *kymo_leaves;

void kymo_freertos_switched_in(void) {
    TCB_t *from = kymo_leaves;
    const TCB_t *const to = pxCurrentTCB;
    enum kymo_thread_state state = KYMO_THREAD_STATE_BLOCKED;
    enum kymo_switch_reason reason = KYMO_SWITCH_REASON_WAITS;
    if (from == NULL || from == to)
        return;
    const List_t *list = listLIST_ITEM_CONTAINER(&from->xStateListItem);
    from->uxTaskNumber = list != &pxReadyTasksLists[from->uxPriority];
    if (list == &pxReadyTasksLists[from->uxPriority]) {
        state = KYMO_THREAD_STATE_RUNNABLE;
        reason = from->uxPriority < to->uxPriority ? KYMO_SWITCH_REASON_PREEMPTED
                                                   : KYMO_SWITCH_REASON_EXPIRED;
    } else if (list == &xTasksWaitingTermination) {
        state = KYMO_THREAD_STATE_ENDED;
        reason = KYMO_SWITCH_REASON_ENDED;
    } else if (listLIST_ITEM_CONTAINER(&from->xEventListItem) == NULL &&
               from->ucNotifyState[0] != taskWAITING_NOTIFICATION) {
        state = list == &xSuspendedTaskList ? KYMO_THREAD_STATE_SUSPENDED
                                            : KYMO_THREAD_STATE_SLEEPING;
    }
    kymo_sched_switch_masked(KYMO_TID(from), KYMO_TID(to), state, reason, (int16_t)to->uxPriority);
}
