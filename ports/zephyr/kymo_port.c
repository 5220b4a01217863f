/* The session, the clock and the interrupts, on one CPU. */
#include <kymo.h>
#include <zephyr/init.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#ifdef CONFIG_CPU_CORTEX_M
#include <cmsis_core.h>
#endif

KYMO_MEMORY(1, CONFIG_KYMO_MEMORY)

/* Without a counter of 64 bits, something must be recorded in each of its rounds. */
uint64_t kymo_port_clock(void) {
#ifdef CONFIG_TIMER_HAS_64BIT_CYCLE_COUNTER
    return k_cycle_get_64();
#else
    static uint32_t last, rounds;
    const uint32_t now = k_cycle_get_32();
    rounds += now < last;
    last = now;
    return (uint64_t)rounds << 32 | now;
#endif
}

uint64_t kymo_port_frequency(void) { return (uint64_t)sys_clock_hw_cycles_per_sec(); }

uint32_t kymo_port_cpu(void) { return 0; }

uintptr_t kymo_port_mask(void) { return arch_irq_lock(); }

void kymo_port_unmask(uintptr_t saved) { arch_irq_unlock((unsigned int)saved); }

/* Elsewhere all interrupts have the number 0. */
kymo_irq kymo_zephyr_irq(void) {
#if defined(CONFIG_CPU_CORTEX_M)
    return __get_IPSR() - 16;
#elif defined(CONFIG_RISCV)
    return csr_read(mcause) & CONFIG_RISCV_MCAUSE_EXCEPTION_MASK;
#else
    return 0;
#endif
}

void kymo_zephyr_dump(void);

/* Comes before main, and before the threads of K_THREAD_DEFINE. The list has what is hooked. */
static int kymo_zephyr_start(void) {
    static const uint16_t events[] = {
        KYMO_ID_SCHED_SWITCH,     KYMO_ID_SCHED_WAKEUP,   KYMO_ID_THREAD_CREATE,
        KYMO_ID_THREAD_EXIT,      KYMO_ID_THREAD_SUSPEND, KYMO_ID_THREAD_RESUME,
        KYMO_ID_THREAD_NAME,      KYMO_ID_THREAD_STATE,   KYMO_ID_IRQ_HANDLER_ENTRY,
        KYMO_ID_IRQ_HANDLER_EXIT, KYMO_ID_IRQ_NAME};
    const struct kymo_config config = {.flags = KYMO_ROLLING,
                                       .seed = k_cycle_get_32(),
                                       .events = events,
                                       .events_count = ARRAY_SIZE(events),
                                       .dump_state = kymo_zephyr_dump};
    const int32_t channels = kymo_start(KYMO_TRACE, &config);
    if (channels < 0)
        printk("kymo: error %d\n", (int)-channels);
    return (int)MIN(channels, 0);
}
SYS_INIT(kymo_zephyr_start, APPLICATION, 0);
