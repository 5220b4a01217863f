/* Semaphores and mutexes. What is released goes to the most urgent waiter itself: nobody overtakes
 * it. */
#include "events.h"
#include "rtos.h"

void semaphore_wait(struct semaphore *semaphore) {
    uintptr_t saved = interrupts_mask();
    bool contended = semaphore->count == 0;
    if (contended) {
        kymo_lock_wait_masked((uintptr_t)semaphore, KYMO_TID_UNKNOWN, KYMO_LOCK_KIND_SEMAPHORE);
        task_block(&semaphore->waiting, TASK_BLOCKED);
    } else {
        semaphore->count--;
    }
    kymo_lock_acquired_masked((uintptr_t)semaphore, KYMO_LOCK_KIND_SEMAPHORE, contended);
    interrupts_restore(saved);
}

bool semaphore_try(struct semaphore *semaphore) {
    uintptr_t saved = interrupts_mask();
    bool is_free = semaphore->count > 0;
    if (is_free) {
        semaphore->count--;
        kymo_lock_acquired_masked((uintptr_t)semaphore, KYMO_LOCK_KIND_SEMAPHORE, false);
    } else {
        kymo_lock_failed_masked((uintptr_t)semaphore, -11, KYMO_LOCK_KIND_SEMAPHORE);
    }
    interrupts_restore(saved);
    return is_free;
}

void semaphore_post(struct semaphore *semaphore) {
    uintptr_t saved = interrupts_mask();
    kymo_lock_release_masked((uintptr_t)semaphore, KYMO_LOCK_KIND_SEMAPHORE);
    if (task_wake_first(&semaphore->waiting) == NULL)
        semaphore->count++;
    if (!in_interrupt)
        schedule_if_needed();
    interrupts_restore(saved);
}

void mutex_lock(struct mutex *mutex) {
    uintptr_t saved = interrupts_mask();
    bool contended = mutex->owner != NULL;
    if (contended) {
        kymo_lock_wait_masked((uintptr_t)mutex, mutex->owner->id, KYMO_LOCK_KIND_MUTEX);
        task_block(&mutex->waiting, TASK_BLOCKED);
    } else {
        mutex->owner = running;
    }
    kymo_lock_acquired_masked((uintptr_t)mutex, KYMO_LOCK_KIND_MUTEX, contended);
    interrupts_restore(saved);
}

void mutex_unlock(struct mutex *mutex) {
    uintptr_t saved = interrupts_mask();
    kymo_lock_release_masked((uintptr_t)mutex, KYMO_LOCK_KIND_MUTEX);
    mutex->owner = task_wake_first(&mutex->waiting);
    schedule_if_needed();
    interrupts_restore(saved);
}
