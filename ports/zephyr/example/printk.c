/* The serial port of QEMU's virt, and its end. */
#include <zephyr/sys/printk.h>

#include <stdarg.h>

#include "kernel.h"

#define UART (*(volatile uint8_t *)0x10000000)
#define TEST_DEVICE (*(volatile uint32_t *)0x100000)

static void print_text(const char *text) {
    while (*text != '\0')
        UART = (uint8_t)*text++;
}

static void print_number(unsigned number) {
    if (number >= 10)
        print_number(number / 10);
    UART = (uint8_t)('0' + number % 10);
}

/* With %s, and %d and %u for numbers that are not negative. */
void printk(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    for (; *format != '\0'; format++) {
        if (*format != '%')
            UART = (uint8_t)*format;
        else if (*++format == 's')
            print_text(va_arg(arguments, const char *));
        else
            print_number(va_arg(arguments, unsigned));
    }
    va_end(arguments);
}

void fail(const char *why) {
    printk("failed: %s\n", why);
    TEST_DEVICE = 0x13333;
    for (;;)
        ;
}
