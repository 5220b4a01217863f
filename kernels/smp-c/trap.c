/* Traps, the timers, interrupts between harts, and the console of QEMU's virt machine. */
#include <stdarg.h>

#include "counters.h"
#include "kernel.h"

#define MSIP ((volatile uint32_t *)0x2000000)
#define MTIMECMP ((volatile uint64_t *)0x2004000)
#define MTIME ((volatile uint64_t *)0x200bff8)
#define UART ((volatile uint8_t *)0x10000000)
#define TEST_DEVICE ((volatile uint32_t *)0x100000)
#define SOFTWARE_INTERRUPT 3u
#define TIMER_INTERRUPT 7u
#define CALL_OF_A_PROGRAM 8u
#define MSTATUS_MIE 8u

struct hart harts[HARTS];
uint32_t harts_may_start __attribute__((section(".data")));
static uint32_t asked;
static uint32_t are_held;

uintptr_t interrupts_mask(void) {
    uintptr_t saved;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(saved) : : "memory");
    return saved & MSTATUS_MIE;
}

void interrupts_restore(uintptr_t saved) {
    __asm__ volatile("csrs mstatus, %0" : : "r"(saved) : "memory");
}

struct hart *this_hart(void) {
    uintptr_t number;
    __asm__ volatile("csrr %0, mhartid" : "=r"(number));
    return &harts[number];
}

uint64_t clock_now(void) { return *MTIME; }

static void set_timer(const struct hart *hart) {
    const uint64_t sample = hart->next_sample, tick = hart->next_tick;
    MTIMECMP[hart - harts] = sample < tick ? sample : tick;
}

/* Lets the hart take interrupts. */
void timer_start(struct hart *hart) {
    hart->next_tick = clock_now() + CLOCK_FREQUENCY / TICKS_A_SECOND;
    hart->next_sample = UINT64_MAX;
    set_timer(hart);
    __asm__ volatile("csrw mie, %0" : : "r"(0x88));
}

void hart_kick(const struct hart *hart) { MSIP[hart - harts] = 1; }

/* port: begin */
/* The hart is in no record: its interrupts are not masked, or it is held. */
static void answer(struct hart *hart) {
    uint32_t seen = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
    if (seen != hart->answered)
        kymo_counting_tick(); /* counting may have begun, or ended */
    __atomic_store_n(&hart->answered, seen, __ATOMIC_RELEASE);
}

void harts_synchronize(void) {
    uintptr_t saved = interrupts_mask();
    const uint32_t turn = __atomic_add_fetch(&asked, 1, __ATOMIC_ACQ_REL);
    for (struct hart *hart = harts; hart < &harts[HARTS]; hart++) {
        if (hart == this_hart() || !__atomic_load_n(&hart->runs, __ATOMIC_ACQUIRE))
            continue;
        hart_kick(hart);
        while (__atomic_load_n(&hart->answered, __ATOMIC_ACQUIRE) != turn)
            ;
    }
    interrupts_restore(saved);
}

/* Every hart finds what is counted. */
void harts_count(void) {
    uintptr_t saved = interrupts_mask();
    kymo_counting_tick();
    harts_synchronize();
    interrupts_restore(saved);
}
/* port: end */

void harts_start(void) { __atomic_store_n(&harts_may_start, 1, __ATOMIC_RELEASE); }

void harts_hold(void) {
    interrupts_mask();
    __atomic_store_n(&are_held, 1, __ATOMIC_RELEASE);
    for (struct hart *hart = harts; hart < &harts[HARTS]; hart++)
        if (hart != this_hart()) {
            hart_kick(hart);
            while (!__atomic_load_n(&hart->is_held, __ATOMIC_ACQUIRE))
                ;
        }
}

static void be_held(struct hart *hart) {
    __atomic_store_n(&hart->is_held, true, __ATOMIC_RELEASE);
    for (;;)
        answer(hart);
}

static void timer_interrupt(struct hart *hart, const struct trap_frame *frame) {
    const uint64_t now = clock_now();
    /* port: begin */
    const uint64_t period = kymo_sample_period();
    if (period == 0) {
        hart->next_sample = UINT64_MAX;
    } else if (hart->next_sample == UINT64_MAX) {
        hart->next_sample = now + kymo_sample_next();
    } else if (now >= hart->next_sample) {
        take_sample(hart, frame, (uint32_t)((now - hart->next_sample) / period));
        hart->next_sample = now + kymo_sample_next();
    }
    kymo_tick();
    kymo_counting_tick();
    /* port: end */
    for (; hart->next_tick <= now; hart->next_tick += CLOCK_FREQUENCY / TICKS_A_SECOND)
        scheduler_tick(hart);
    set_timer(hart);
}

static void interrupt(uint32_t number, const struct trap_frame *frame) {
    struct hart *hart = this_hart();
    hart->interrupts++;
    kymo_irq_handler_entry_masked(number);
    if (number == TIMER_INTERRUPT) {
        timer_interrupt(hart, frame);
    } else if (number == SOFTWARE_INTERRUPT) {
        MSIP[hart - harts] = 0;
        answer(hart);
    }
    kymo_irq_handler_exit_masked(number);
    if (__atomic_load_n(&are_held, __ATOMIC_ACQUIRE))
        be_held(hart);
    schedule_if_needed(hart);
}

/* A program's call. It may be interrupted, and go on on another hart. */
static void syscall(struct trap_frame *frame) {
    struct thread *thread = this_hart()->running;
    const uint32_t number = (uint32_t)frame->x[A7];
    const uintptr_t argument = frame->x[A0];
    const uint64_t begin = clock_now();
    intptr_t result = 0;
    frame->pc += 4;
    thread->entry = frame;
    this_hart()->syscalls++;
    kymo_sys_enter_masked(number, argument);
    interrupts_restore(MSTATUS_MIE);
    switch (number) {
    case SYSCALL_EXIT:
        thread_exit();
    case SYSCALL_SLEEP:
        thread_sleep((uint32_t)argument);
        break;
    case SYSCALL_SUM:
        for (uintptr_t i = 1; i <= argument; i++) {
            result += (intptr_t)i;
            __asm__ volatile("");
        }
        break;
    default:
        result = -38;
    }
    observe_call_time(clock_now() - begin);
    interrupts_mask();
    kymo_sys_exit_masked(number, result);
    thread->entry = NULL;
    frame->x[A0] = (uintptr_t)result;
}

void trap(uintptr_t cause, struct trap_frame *frame) {
    const uint32_t number = (uint32_t)cause & 0xffu;
    if (cause >> 63 != 0) {
        interrupt(number, frame);
    } else if (number == CALL_OF_A_PROGRAM) {
        syscall(frame);
    } else {
        kymo_exception_masked(number, frame->pc, 0);
        print("kernel: exception %u in %s\n", number, this_hart()->running->name);
        machine_exit(1);
    }
}

static void put_char(char c) { *UART = (uint8_t)c; }

static void put_number(unsigned number) {
    char digits[10];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        put_char(digits[--count]);
}

void print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    for (; *format != '\0'; format++) {
        if (*format != '%')
            put_char(*format);
        else if (*++format == 'u')
            put_number(va_arg(arguments, unsigned));
        else if (*format == 's')
            for (const char *text = va_arg(arguments, const char *); *text != '\0'; text++)
                put_char(*text);
    }
    va_end(arguments);
}

_Noreturn void machine_exit(int status) {
    *TEST_DEVICE = status == 0 ? 0x5555u : (uint32_t)status << 16 | 0x3333u;
    for (;;)
        ;
}
