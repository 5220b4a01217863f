/* Of Zephyr 3.7.0, the names and types that the port uses: nothing of Zephyr itself is here. With
 * LATER, the states of threads are those of later releases. */
#ifndef ZEPHYR_KERNEL_H
#define ZEPHYR_KERNEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARG_UNUSED(argument) (void)(argument)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

#define K_LOWEST_THREAD_PRIO CONFIG_NUM_PREEMPT_PRIORITIES
#define K_IDLE_PRIO K_LOWEST_THREAD_PRIO

#define _THREAD_DUMMY (1u << 0)
#define _THREAD_PENDING (1u << 1)
#ifdef LATER
#define _THREAD_SLEEPING (1u << 2)
#else
#define _THREAD_PRESTART (1u << 2)
#endif
#define _THREAD_DEAD (1u << 3)
#define _THREAD_SUSPENDED (1u << 4)
#define _THREAD_ABORTING (1u << 5)
#define _THREAD_SUSPENDING (1u << 6)
#define _THREAD_QUEUED (1u << 7)

typedef struct sys_dnode {
    struct sys_dnode *next, *prev;
} sys_dnode_t;

static inline bool sys_dnode_is_linked(const sys_dnode_t *node) { return node->next != NULL; }

struct _timeout {
    sys_dnode_t node;
};

struct _thread_base {
    uint8_t thread_state;
    int8_t prio;
    struct _timeout timeout;
};

struct k_thread {
    struct _thread_base base;
    struct k_thread *next_thread;
    char name[CONFIG_THREAD_MAX_NAME_LEN];
};

typedef struct k_thread *k_tid_t;
typedef void (*k_thread_user_cb_t)(const struct k_thread *thread, void *user_data);

k_tid_t k_sched_current_thread_query(void);
void k_thread_foreach(k_thread_user_cb_t callback, void *user_data);
void thread_abort_hook(struct k_thread *thread);
uint32_t k_cycle_get_32(void);
uint64_t k_cycle_get_64(void);

static inline int sys_clock_hw_cycles_per_sec(void) { return CONFIG_SYS_CLOCK_HW_CYCLES_PER_SEC; }

static inline unsigned int arch_irq_lock(void) {
    unsigned int key;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(key) : : "memory");
    return key & 8;
}

static inline void arch_irq_unlock(unsigned int key) {
    __asm__ volatile("csrs mstatus, %0" : : "r"(key) : "memory");
}

#define csr_read(csr)                                                                              \
    ({                                                                                             \
        unsigned long read;                                                                        \
        __asm__ volatile("csrr %0, " #csr : "=r"(read));                                           \
        read;                                                                                      \
    })

#endif
