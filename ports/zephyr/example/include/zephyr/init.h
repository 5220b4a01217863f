/* Of Zephyr 3.7.0, the names and types that the port uses. */
#ifndef ZEPHYR_INIT_H
#define ZEPHYR_INIT_H

struct init_entry {
    int (*init_fn)(void);
};

enum { INIT_LEVEL_APPLICATION = 4 };

/* Here a script runs the only entry that there is. */
#define SYS_INIT(function, level, priority)                                                        \
    const struct init_entry init_of_##function = {function};                                       \
    _Static_assert(INIT_LEVEL_##level >= 0 && (priority) >= 0, "a level and a priority")

#endif
