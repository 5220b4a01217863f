enum { TIMER = 0, NMI = 2, HAS_NMI = 1 };
enum { SAVED = 9, CODE = 3, RETURN = 6 };
struct frame {
    uint64_t fp, r11, r10, r9, r8, di, si, dx, cx, ax, ip, cs, flags, sp, ss;
};
#define KEEP_FRAME()
