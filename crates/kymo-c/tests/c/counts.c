/* What becomes of events and of a name that is too long, by the kernel's own calls. */
#include "one_cpu.h"
#include <string.h>

KYMO_MEMORY(1, 32768)

/* The name is in the memory with this many bytes, and marked as cut. */
static int has_name(const char *name, uint32_t bytes) {
    for (size_t at = 4; at + bytes < sizeof kymo_memory; at += 4) {
        uint32_t head;
        memcpy(&head, &kymo_memory[at - 4], sizeof head);
        if (head == (bytes | 1u << 31) && memcmp(&kymo_memory[at], name, bytes) == 0)
            return 1;
    }
    return 0;
}

/* Reads all that is new in the only CPU's events. */
static int read_events(void) {
    static uint32_t buffer[256];
    int32_t bytes;
    while ((bytes = kymo_read(KYMO_TRACE, 2, buffer, sizeof buffer)) > 0)
        ;
    return bytes;
}

int main(void) {
    static const uint16_t events[] = {KYMO_ID_IRQ_HANDLER_ENTRY, KYMO_ID_THREAD_NAME};
    struct kymo_config config = {0};
    config.packet_size = 512;
    config.events = events;
    config.events_count = sizeof events / sizeof events[0];
    struct kymo_counts counts;
    const uint64_t all = 20000;

    /* Full rings drop what comes: nothing is overwritten. */
    if (kymo_start(KYMO_TRACE, &config) != 3 || kymo_flags() != 0)
        return 1;
    for (uint64_t n = 0; n < all; n++)
        kymo_irq_handler_entry(1);
    if (kymo_counts(&counts) != 0 || counts.discarded == 0 || counts.overwritten != 0 ||
        counts.read != 0 || counts.retained == 0 || counts.retained + counts.discarded != all)
        return 2;
    const uint64_t retained = counts.retained, discarded = counts.discarded;

    /* What was read gives way: it is not overwritten. */
    if (kymo_buffer_size() > 1024 || read_events() != 0)
        return 8;
    for (uint64_t n = 0; n < retained / 2; n++)
        kymo_irq_handler_entry(1);
    if (kymo_counts(&counts) != 0 || counts.discarded != discarded || counts.overwritten != 0 ||
        counts.read == 0 || counts.retained + counts.read != retained + retained / 2)
        return 9;

    /* 64 bytes end inside the second byte of a character: 63 are taken. */
    char name[90] = "x";
    for (size_t n = 0; n < 40; n++)
        strcat(name, "\xc3\xa9");
    kymo_thread_name(5, name, KYMO_TO_NUL);
    if (KYMO_NAME_BYTES != 64 || !has_name(name, 63))
        return 3;
    /* A name of 64 bytes that end with a character has all of them. */
    kymo_thread_name(6, name + 1, KYMO_TO_NUL);
    if (!has_name(name + 1, 64) || kymo_finish(KYMO_TRACE, NULL) != 0)
        return 4;

    /* A flight recorder overwrites: nothing is discarded. */
    config.flags = KYMO_ROLLING;
    if (kymo_flags() != -KYMO_EINVAL || kymo_start(KYMO_TRACE, &config) != 3)
        return 5;
    name[0] = 'y';
    kymo_thread_name(5, name, KYMO_TO_NUL);
    for (uint64_t n = 0; n < all; n++)
        kymo_irq_handler_entry(1);
    /* Names have packets of their own. */
    if (kymo_flags() != KYMO_ROLLING || !has_name(name, 63))
        return 16;
    if (kymo_counts(&counts) != 0 || counts.overwritten == 0 || counts.discarded != 0 ||
        counts.read != 0 || counts.retained == 0 || counts.retained + counts.overwritten != all)
        return 6;
    if (kymo_finish(KYMO_TRACE, NULL) != 0)
        return 7;

    /* Of what it overwrites, some was read: at the beginning, and again later. */
    const uint64_t early = 40;
    if (kymo_start(KYMO_TRACE, &config) != 3)
        return 10;
    for (uint64_t n = 0; n < early; n++)
        kymo_irq_handler_entry(1);
    if (read_events() != 0)
        return 11;
    for (uint64_t n = 0; n < all; n++)
        kymo_irq_handler_entry(1);
    if (kymo_counts(&counts) != 0 || counts.read != early || counts.discarded != 0 ||
        counts.retained + counts.read + counts.overwritten != early + all)
        return 12;
    const uint64_t lost = counts.overwritten;
    if (read_events() != 0 || kymo_counts(&counts) != 0 || counts.overwritten < lost)
        return 13;
    const uint64_t skipped = counts.overwritten;
    for (uint64_t n = 0; n < all; n++)
        kymo_irq_handler_entry(1);
    if (kymo_counts(&counts) != 0 || counts.discarded != 0 || counts.read <= early ||
        counts.overwritten <= skipped ||
        counts.retained + counts.read + counts.overwritten != early + 2 * all)
        return 14;
    return kymo_finish(KYMO_TRACE, NULL) == 0 ? 0 : 15;
}
