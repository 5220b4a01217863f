/* What compilers, and the library on 32-bit x86, ask of every kernel. */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *to, const void *from, size_t size) {
    volatile uint8_t *put = to;
    for (const uint8_t *byte = from; size > 0; size--)
        *put++ = *byte++;
    return to;
}
void *memmove(void *to, const void *from, size_t size) {
    volatile uint8_t *put = to;
    const uint8_t *byte = from;
    if (put <= byte)
        return memcpy(to, from, size);
    while (size-- > 0)
        put[size] = byte[size];
    return to;
}
void *memset(void *to, int value, size_t size) {
    for (volatile uint8_t *put = to; size > 0; size--)
        *put++ = (uint8_t)value;
    return to;
}
int memcmp(const void *one, const void *other, size_t size) {
    const uint8_t *a = one, *b = other;
    for (; size > 0; size--, a++, b++)
        if (*a != *b)
            return *a - *b;
    return 0;
}
int bcmp(const void *one, const void *other, size_t size);
int bcmp(const void *one, const void *other, size_t size) { return memcmp(one, other, size); }
size_t strlen(const char *text);
size_t strlen(const char *text) {
    const volatile char *end = text;
    while (*end != '\0')
        end++;
    return (size_t)(end - text);
}
