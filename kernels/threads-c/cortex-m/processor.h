enum { TIMER = 15, NMI = 2, HAS_NMI = 0 };
enum { SAVED = 11, CODE = 4, RETURN = 8 };
struct frame {
    uint32_t r6, fp, r0, r1, r2, r3, r12, lr, ip, status;
};
/* clang gives no frame to a function that calls none, and a sample in it would lack its caller. */
#define KEEP_FRAME() __asm__ volatile("" : : : "lr")
