enum { TIMER = 27, NMI = 0, HAS_NMI = 0 };
enum { SAVED = 16, CODE = 0, RETURN = 11 };
struct frame {
    uint64_t x[19], fp, lr, ip, status, unused;
};
#define KEEP_FRAME()
