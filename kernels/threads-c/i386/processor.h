enum { TIMER = 0, NMI = 2, HAS_NMI = 0 };
enum { SAVED = 8, CODE = 1, RETURN = 4 };
struct frame {
    uint32_t di, si, fp, sp, bx, dx, cx, ax, ip, cs, flags;
};
#define KEEP_FRAME()
