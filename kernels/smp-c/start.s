# Entry of every hart, in M-mode, and of every trap.

    .section .text.entry, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    csrr t0, mhartid
    li t1, 4
    bgeu t0, t1, 5f
    la sp, boot_stacks
    addi t1, t0, 1
    slli t1, t1, 13
    add sp, sp, t1
    la t1, trap_entry
    csrw mtvec, t1
    csrw mscratch, zero
    # Programs may use all memory: this kernel does not protect itself from them.
    li t1, -1
    csrw pmpaddr0, t1
    li t1, 0x1f
    csrw pmpcfg0, t1
    bnez t0, 3f
    la t0, bss_start
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sd zero, 0(t0)
    addi t0, t0, 8
    j 1b
2:  li s0, 0
    call main
3:  la t1, harts_may_start
4:  lw t2, 0(t1)
    beqz t2, 4b
    fence
    li s0, 0
    call hart_main
5:  wfi
    j 5b

# A trap saves all registers in a struct trap_frame on the kernel stack of the thread that it
# interrupts. mscratch has the end of this stack while a program runs, and 0 in the kernel.
    .text
    .align 2
trap_entry:
    csrrw sp, mscratch, sp
    bnez sp, 1f
    csrrw sp, mscratch, sp
    addi sp, sp, -272
    sd t0, 40(sp)
    addi t0, sp, 272
    sd t0, 16(sp)
    sd s0, 64(sp)
    j 2f
1:  addi sp, sp, -272
    sd t0, 40(sp)
    csrrw t0, mscratch, zero
    sd t0, 16(sp)
    sd s0, 64(sp)
    li s0, 0                     # Chains of callers in the kernel end here.
2:  sd ra, 8(sp)
    sd gp, 24(sp)
    sd tp, 32(sp)
    sd t1, 48(sp)
    sd t2, 56(sp)
    sd s1, 72(sp)
    sd a0, 80(sp)
    sd a1, 88(sp)
    sd a2, 96(sp)
    sd a3, 104(sp)
    sd a4, 112(sp)
    sd a5, 120(sp)
    sd a6, 128(sp)
    sd a7, 136(sp)
    sd s2, 144(sp)
    sd s3, 152(sp)
    sd s4, 160(sp)
    sd s5, 168(sp)
    sd s6, 176(sp)
    sd s7, 184(sp)
    sd s8, 192(sp)
    sd s9, 200(sp)
    sd s10, 208(sp)
    sd s11, 216(sp)
    sd t3, 224(sp)
    sd t4, 232(sp)
    sd t5, 240(sp)
    sd t6, 248(sp)
    csrr t0, mepc
    sd t0, 256(sp)
    csrr t0, mstatus
    sd t0, 264(sp)
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    csrr a0, mcause
    mv a1, sp
    call trap

# Goes on where the frame at sp was interrupted.
trap_return:
    ld t0, 256(sp)
    csrw mepc, t0
    ld t0, 264(sp)
    csrw mstatus, t0
    li t1, 0x1800
    and t0, t0, t1
    bnez t0, 1f
    addi t0, sp, 272
    csrw mscratch, t0
1:  ld ra, 8(sp)
    ld gp, 24(sp)
    ld tp, 32(sp)
    ld t0, 40(sp)
    ld t1, 48(sp)
    ld t2, 56(sp)
    ld s0, 64(sp)
    ld s1, 72(sp)
    ld a0, 80(sp)
    ld a1, 88(sp)
    ld a2, 96(sp)
    ld a3, 104(sp)
    ld a4, 112(sp)
    ld a5, 120(sp)
    ld a6, 128(sp)
    ld a7, 136(sp)
    ld s2, 144(sp)
    ld s3, 152(sp)
    ld s4, 160(sp)
    ld s5, 168(sp)
    ld s6, 176(sp)
    ld s7, 184(sp)
    ld s8, 192(sp)
    ld s9, 200(sp)
    ld s10, 208(sp)
    ld s11, 216(sp)
    ld t3, 224(sp)
    ld t4, 232(sp)
    ld t5, 240(sp)
    ld t6, 248(sp)
    ld sp, 16(sp)
    mret

# switch_stacks(uintptr_t **from, uintptr_t *to): leaves the registers that a function must keep on
# the stack of the one, and takes those of the other from its stack.
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

# Where a thread of the kernel begins: s1 is its code, s2 its argument. A frame pointer of 0 ends
# chains of callers.
    .globl thread_begin
thread_begin:
    call thread_started
    csrsi mstatus, 8
    li s0, 0
    mv a0, s2
    jalr s1
    tail thread_exit

# Where the thread of a program begins: its first trap frame is on the stack already.
    .globl program_begin
program_begin:
    call thread_started
    j trap_return
