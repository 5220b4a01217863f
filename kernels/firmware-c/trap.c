/* Interrupts, exceptions, the timer and the console of QEMU's virt machine. */
#include <stdarg.h>

#include "events.h"
#include "rtos.h"

#define MTIMECMP ((volatile uint32_t *)0x2004000)
#define MTIME ((volatile uint32_t *)0x200bff8)
#define UART ((volatile uint8_t *)0x10000000)
#define TEST_DEVICE ((volatile uint32_t *)0x100000)
#define TIMER_INTERRUPT 7u
#define MSTATUS_MIE 8u
#define MIE_TIMER 0x80u

bool in_interrupt;
static uint64_t next_tick, next_sample = UINT64_MAX;

uintptr_t interrupts_mask(void) {
    uintptr_t saved;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(saved) : : "memory");
    return saved & MSTATUS_MIE;
}

void interrupts_restore(uintptr_t saved) {
    __asm__ volatile("csrs mstatus, %0" : : "r"(saved) : "memory");
}

uint64_t clock_now(void) {
    uint32_t high, low;
    do {
        high = MTIME[1];
        low = MTIME[0];
    } while (high != MTIME[1]);
    return (uint64_t)high << 32 | low;
}

static void set_timer(uint64_t at) {
    MTIMECMP[1] = UINT32_MAX; /* No interrupt between the halves. */
    MTIMECMP[0] = (uint32_t)at;
    MTIMECMP[1] = (uint32_t)(at >> 32);
}

static void set_next(void) { set_timer(next_sample < next_tick ? next_sample : next_tick); }

void timer_start(void) {
    next_tick = clock_now() + CLOCK_FREQUENCY / TICKS_A_SECOND;
    set_next();
    __asm__ volatile("csrs mie, %0" : : "r"(MIE_TIMER));
}

/* Samples are to be taken every `period` ticks of the clock from now on; 0: no more. */
void sampling_changed(uint64_t period) {
    uintptr_t saved = interrupts_mask();
    next_sample = period > 0 ? clock_now() + kymo_sample_next() : UINT64_MAX;
    set_next();
    interrupts_restore(saved);
}

static void timer_interrupt(uintptr_t pc, uintptr_t fp, uintptr_t ra) {
    const uint64_t now = clock_now(), period = kymo_sample_period();
    if (period > 0 && now >= next_sample) {
        take_sample(pc, fp, ra, (uint32_t)(now - next_sample) / (uint32_t)period);
        next_sample = now + kymo_sample_next();
    }
    while (next_tick <= clock_now()) {
        next_tick += CLOCK_FREQUENCY / TICKS_A_SECOND;
        scheduler_tick();
    }
    set_next();
}

uintptr_t trap(uintptr_t cause, uintptr_t pc, uintptr_t value, uintptr_t fp,
               uintptr_t ra) {
    unsigned number = (unsigned)cause & 0xffu;
    if (cause >> 31 == 0) {
        kymo_exception_masked(number, pc, value);
        statistics.exceptions++;
        print("exception %u at %x: task %s ends\n", number, (unsigned)pc, running->name);
        if (running->id == KYMO_TID_IDLE)
            machine_exit(1);
        task_end();
    }
    in_interrupt = true;
    statistics.interrupts++;
    kymo_irq_handler_entry_masked(number);
    if (number == TIMER_INTERRUPT)
        timer_interrupt(pc, fp, ra);
    kymo_irq_handler_exit_masked(number);
    in_interrupt = false;
    schedule_if_needed();
    return pc;
}

static void put_char(char c) { *UART = (uint8_t)c; }

void console_write(const char *text, size_t size) {
    while (size-- > 0)
        put_char(*text++);
}

static void put_number(uint32_t number, uint32_t base) {
    char digits[10];
    size_t count = 0;
    do {
        digits[count++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    while (count > 0)
        put_char(digits[--count]);
}

void print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            put_char(*format);
            continue;
        }
        switch (*++format) {
        case 's':
            for (const char *text = va_arg(arguments, const char *); *text != '\0'; text++)
                put_char(*text);
            break;
        case 'u':
            put_number(va_arg(arguments, unsigned), 10);
            break;
        case 'x':
            put_number(va_arg(arguments, unsigned), 16);
            break;
        default:
            put_char(*format);
        }
    }
    va_end(arguments);
}

_Noreturn void machine_exit(int status) {
    *TEST_DEVICE = status == 0 ? 0x5555u : (uint32_t)status << 16 | 0x3333u;
    for (;;)
        ;
}
