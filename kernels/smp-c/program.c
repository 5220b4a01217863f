/* A program, which runs in user mode: it computes, asks the kernel for sums, and sleeps. */
#include "kernel.h"

#define PROGRAM __attribute__((section(".program"), noinline))

static PROGRAM intptr_t call(enum syscall number, uintptr_t argument) {
    register uintptr_t a0 __asm__("a0") = argument;
    register uintptr_t a7 __asm__("a7") = number;
    /* As if the call changed ra: then its return address is in the frame, where samples find it. */
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory", "ra");
    return (intptr_t)a0;
}

static PROGRAM void crunch(uint32_t turns) {
    for (volatile uint32_t i = 0; i < turns; i++)
        ;
}

PROGRAM void program_main(uintptr_t rounds) {
    for (uintptr_t i = 1; i <= rounds; i++) {
        crunch(20000);
        if (call(SYSCALL_SUM, 20000) != 200010000)
            __asm__ volatile("unimp");
        if (i % 10 == 0)
            call(SYSCALL_SLEEP, 2);
    }
    call(SYSCALL_EXIT, 0);
}
