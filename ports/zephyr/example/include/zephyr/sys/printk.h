/* Of Zephyr 3.7.0, the names and types that the port uses. */
#ifndef ZEPHYR_PRINTK_H
#define ZEPHYR_PRINTK_H

void printk(const char *format, ...);

#endif
