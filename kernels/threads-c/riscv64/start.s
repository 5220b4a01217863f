# OpenSBI enters here in S-mode, without paging; the interrupt; the exchange of two stacks.

    .section .text.entry, "ax"
    .globl _start
_start:
    la sp, stack_top
    la t0, timer_entry
    csrw stvec, t0
    li s0, 0
    call main
1:  wfi
    j 1b

# It saves what a C function may change, and passes it.
    .text
    .balign 4
timer_entry:
    addi sp, sp, -160
    sd ra, 0(sp)
    sd t0, 8(sp)
    sd t1, 16(sp)
    sd t2, 24(sp)
    sd t3, 32(sp)
    sd t4, 40(sp)
    sd t5, 48(sp)
    sd t6, 56(sp)
    sd a0, 64(sp)
    sd a1, 72(sp)
    sd a2, 80(sp)
    sd a3, 88(sp)
    sd a4, 96(sp)
    sd a5, 104(sp)
    sd a6, 112(sp)
    sd a7, 120(sp)
    sd s0, 128(sp)
    csrr t0, sepc
    sd t0, 136(sp)
    csrr t0, sstatus
    sd t0, 144(sp)
    # The timer's interrupt is the only one.
    csrr t0, scause
    bgez t0, 1f
    mv a0, sp
    call timer_interrupt
    ld t0, 136(sp)
    csrw sepc, t0
    ld t0, 144(sp)
    csrw sstatus, t0
    ld ra, 0(sp)
    ld t0, 8(sp)
    ld t1, 16(sp)
    ld t2, 24(sp)
    ld t3, 32(sp)
    ld t4, 40(sp)
    ld t5, 48(sp)
    ld t6, 56(sp)
    ld a0, 64(sp)
    ld a1, 72(sp)
    ld a2, 80(sp)
    ld a3, 88(sp)
    ld a4, 96(sp)
    ld a5, 104(sp)
    ld a6, 112(sp)
    ld a7, 120(sp)
    addi sp, sp, 160
    sret
1:  call unexpected

# switch_stacks(uintptr_t **from, uintptr_t *to)
    .globl switch_stacks
switch_stacks:
    addi sp, sp, -112
    sd ra, 0(sp)
    sd s0, 8(sp)
    sd s1, 16(sp)
    sd s2, 24(sp)
    sd s3, 32(sp)
    sd s4, 40(sp)
    sd s5, 48(sp)
    sd s6, 56(sp)
    sd s7, 64(sp)
    sd s8, 72(sp)
    sd s9, 80(sp)
    sd s10, 88(sp)
    sd s11, 96(sp)
    sd sp, 0(a0)
    mv sp, a1
    ld ra, 0(sp)
    ld s0, 8(sp)
    ld s1, 16(sp)
    ld s2, 24(sp)
    ld s3, 32(sp)
    ld s4, 40(sp)
    ld s5, 48(sp)
    ld s6, 56(sp)
    ld s7, 64(sp)
    ld s8, 72(sp)
    ld s9, 80(sp)
    ld s10, 88(sp)
    ld s11, 96(sp)
    addi sp, sp, 112
    ret

# Where a thread begins, at s1. A frame pointer of 0 ends chains of callers.
    .globl thread_begin
thread_begin:
    li s0, 0
    csrsi sstatus, 2
    jalr s1
    call thread_exit
