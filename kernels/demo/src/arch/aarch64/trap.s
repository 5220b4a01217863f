// Trap entry and exit, and the switch between two threads.
//
// A trap saves the interrupted code's registers in a frame on the running thread's kernel stack, in
// the layout of `Frame` (trap.rs). From user mode the processor takes sp_el1, which leave_trap has
// left at that stack's top; sp_el0 is the program's.
//
// The processor masks all interrupts at every entry, so that no pseudo-NMI comes here either.

    .macro entry kind
    .balign 128
    sub  sp, sp, {frame}
    stp  x0, x1, [sp]
    stp  x2, x3, [sp, 16]
    stp  x4, x5, [sp, 32]
    stp  x6, x7, [sp, 48]
    stp  x8, x9, [sp, 64]
    stp  x10, x11, [sp, 80]
    stp  x12, x13, [sp, 96]
    stp  x14, x15, [sp, 112]
    stp  x16, x17, [sp, 128]
    stp  x18, x19, [sp, 144]
    mov  x1, \kind
    b    trap_entry
    .endm

    .text
    // The processor's table: four kinds of entries from code with sp_el0 in the kernel (never used),
    // from the kernel, from programs, and from 32-bit programs (never used).
    .balign 2048
    .globl vectors
    .type vectors, @function
vectors:
    .rept 4
    entry {other}
    .endr
    .rept 2
    entry {exception}
    entry {interrupt}
    entry {other}
    entry {other}
    .endr
    .rept 4
    entry {other}
    .endr
    .size vectors, . - vectors

    .type trap_entry, @function
trap_entry:
    stp  x20, x21, [sp, 160]
    stp  x22, x23, [sp, 176]
    stp  x24, x25, [sp, 192]
    stp  x26, x27, [sp, 208]
    stp  x28, x29, [sp, 224]
    mrs  x2, sp_el0
    stp  x30, x2, [sp, 240]
    mrs  x2, elr_el1
    mrs  x3, spsr_el1
    stp  x2, x3, [sp, 256]
    mrs  x4, icc_pmr_el1
    str  x4, [sp, 272]
    mov  x0, sp
    // A chain of frame pointers ends here, or goes on in the interrupted kernel code: two words as
    // that code's own call of this would have left. (1 behind it: callers are looked for in front of
    // their return address.)
    add  x2, x2, 1
    stp  x29, x2, [sp, -16]!
    tst  x3, 0xf
    mov  x29, sp
    csel x29, xzr, x29, eq
    bl   {trap}
    add  sp, sp, 16

// leave_trap: sp = the frame to return to. A new process starts here too.
    .size trap_entry, . - trap_entry
    .globl leave_trap
    .type leave_trap, @function
leave_trap:
    // From here on a pseudo-NMI would overwrite what eret needs.
    msr  daifset, 2
    ldr  x4, [sp, 272]
    msr  icc_pmr_el1, x4
    ldp  x2, x3, [sp, 256]
    msr  elr_el1, x2
    msr  spsr_el1, x3
    ldp  x30, x2, [sp, 240]
    msr  sp_el0, x2
    ldp  x28, x29, [sp, 224]
    ldp  x26, x27, [sp, 208]
    ldp  x24, x25, [sp, 192]
    ldp  x22, x23, [sp, 176]
    ldp  x20, x21, [sp, 160]
    ldp  x18, x19, [sp, 144]
    ldp  x16, x17, [sp, 128]
    ldp  x14, x15, [sp, 112]
    ldp  x12, x13, [sp, 96]
    ldp  x10, x11, [sp, 80]
    ldp  x8, x9, [sp, 64]
    ldp  x6, x7, [sp, 48]
    ldp  x4, x5, [sp, 32]
    ldp  x2, x3, [sp, 16]
    ldp  x0, x1, [sp]
    add  sp, sp, {frame}
    eret
    .size leave_trap, . - leave_trap

// The first switch to a thread returns here: to its entry, which has no caller.
    .globl start_thread
    .type start_thread, @function
start_thread:
    mov  x30, 0
    br   x19
    .size start_thread, . - start_thread

// switch_stacks(x0 = where to store the old thread's sp, x1 = the new thread's sp): returns as the
// new thread, from its own last call. For a new thread, context.rs has built that frame.
    .globl switch_stacks
    .type switch_stacks, @function
switch_stacks:
    stp  x29, x30, [sp, -96]!
    stp  x19, x20, [sp, 16]
    stp  x21, x22, [sp, 32]
    stp  x23, x24, [sp, 48]
    stp  x25, x26, [sp, 64]
    stp  x27, x28, [sp, 80]
    mov  x2, sp
    str  x2, [x0]
    mov  sp, x1
    ldp  x19, x20, [sp, 16]
    ldp  x21, x22, [sp, 32]
    ldp  x23, x24, [sp, 48]
    ldp  x25, x26, [sp, 64]
    ldp  x27, x28, [sp, 80]
    ldp  x29, x30, [sp], 96
    ret
    .size switch_stacks, . - switch_stacks
