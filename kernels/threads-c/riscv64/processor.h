enum { TIMER = 5, NMI = 0, HAS_NMI = 0 };
enum { SAVED = 14, CODE = 2, RETURN = 0 };
struct frame {
    uint64_t ra, t[7], a[8], fp, ip, status, unused;
};
/* gcc before version 14 stores no return address in a function that calls none, and a sample in it
 * would lack its caller. */
#define KEEP_FRAME() __asm__ volatile("" : : : "ra")
