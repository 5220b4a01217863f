// QEMU's `virt` enters here at EL1, without paging; the interrupt; the exchange of two stacks.

    .text
    .globl _start
_start:
    adrp x1, vectors
    add  x1, x1, :lo12:vectors
    msr  vbar_el1, x1
    adrp x1, stack_top
    add  x1, x1, :lo12:stack_top
    mov  sp, x1
    mov  x29, xzr
    mov  x30, xzr
    bl   main
1:  wfi
    b    1b

// Of the sixteen entries, each of 128 bytes, one is used: an interrupt at EL1, on EL1's stack.
    .balign 2048
vectors:
    .rept 5
    b    unexpected
    .balign 128
    .endr
    b    timer_entry
    .balign 128
    .rept 10
    b    unexpected
    .balign 128
    .endr

// It saves what a C function may change, and passes it.
timer_entry:
    sub  sp, sp, #192
    stp  x0, x1, [sp, #0]
    stp  x2, x3, [sp, #16]
    stp  x4, x5, [sp, #32]
    stp  x6, x7, [sp, #48]
    stp  x8, x9, [sp, #64]
    stp  x10, x11, [sp, #80]
    stp  x12, x13, [sp, #96]
    stp  x14, x15, [sp, #112]
    stp  x16, x17, [sp, #128]
    stp  x18, x29, [sp, #144]
    mrs  x1, elr_el1
    mrs  x2, spsr_el1
    stp  x30, x1, [sp, #160]
    str  x2, [sp, #176]
    mov  x0, sp
    bl   timer_interrupt
    ldr  x2, [sp, #176]
    ldp  x30, x1, [sp, #160]
    msr  elr_el1, x1
    msr  spsr_el1, x2
    ldp  x0, x1, [sp, #0]
    ldp  x2, x3, [sp, #16]
    ldp  x4, x5, [sp, #32]
    ldp  x6, x7, [sp, #48]
    ldp  x8, x9, [sp, #64]
    ldp  x10, x11, [sp, #80]
    ldp  x12, x13, [sp, #96]
    ldp  x14, x15, [sp, #112]
    ldp  x16, x17, [sp, #128]
    ldp  x18, x29, [sp, #144]
    add  sp, sp, #192
    eret

// switch_stacks(uintptr_t **from, uintptr_t *to)
    .globl switch_stacks
switch_stacks:
    sub  sp, sp, #96
    stp  x19, x20, [sp, #0]
    stp  x21, x22, [sp, #16]
    stp  x23, x24, [sp, #32]
    stp  x25, x26, [sp, #48]
    stp  x27, x28, [sp, #64]
    stp  x29, x30, [sp, #80]
    mov  x2, sp
    str  x2, [x0]
    mov  sp, x1
    ldp  x19, x20, [sp, #0]
    ldp  x21, x22, [sp, #16]
    ldp  x23, x24, [sp, #32]
    ldp  x25, x26, [sp, #48]
    ldp  x27, x28, [sp, #64]
    ldp  x29, x30, [sp, #80]
    add  sp, sp, #96
    ret

// Where a thread begins, at x19. A frame pointer of 0 ends chains of callers.
    .globl thread_begin
thread_begin:
    mov  x29, xzr
    msr  daifclr, #2
    blr  x19
    bl   thread_exit
