/* FreeRTOS includes it, and uses nothing of it. */
#include <stddef.h>
