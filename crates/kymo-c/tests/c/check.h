/* What tests say of what they find, and how they write a trace. */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
#include <string.h>
#include "kymo.h"

/* Ends a function with 1 unless the condition holds. */
#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);       \
            return 1;                                                             \
        }                                                                         \
    } while (0)

/* Appends what is new in all channels to their files in a folder. */
static inline int drain(uint32_t mode, const char *folder, int32_t channels) {
    static uint32_t buffer[4096];
    for (int32_t channel = 0; channel < channels; channel++) {
        char name[16], path[512];
        CHECK(kymo_channel_name((uint32_t)channel, name, sizeof name) == (int32_t)strlen(name));
        snprintf(path, sizeof path, "%s/%s", folder, name);
        FILE *file = fopen(path, "ab");
        CHECK(file != NULL);
        int32_t bytes;
        while ((bytes = kymo_read(mode, (uint32_t)channel, buffer, sizeof buffer)) > 0)
            CHECK(fwrite(buffer, 1, (size_t)bytes, file) == (size_t)bytes);
        CHECK(bytes == 0 && fclose(file) == 0);
    }
    return 0;
}

#endif
