# Trap entry and exit, and the switch between two threads.
#
# A trap saves the interrupted code's registers in a frame on the running thread's kernel stack: x1
# to x31 at 8 * n, then sepc at 256 and sstatus at 264.
#
# sscratch is 0 in the kernel. In user mode it is the address behind the future frame: the top of
# the thread's kernel stack minus two words, of which the first keeps the hart's tp.

    .text
    .balign 4
    .type trap_entry, @function
trap_entry:
    csrrw sp, sscratch, sp
    bnez sp, 1f
    # From the kernel: keep its stack, and reset sscratch to 0.
    csrrw sp, sscratch, sp
    addi sp, sp, -272
    sd   t0, 40(sp)
    addi t0, sp, 272
    j    2f
    # From user mode.
1:  addi sp, sp, -272
    sd   t0, 40(sp)
    sd   tp, 32(sp)
    sd   gp, 24(sp)
    ld   tp, 272(sp)
    .option push
    .option norelax
    la   gp, __global_pointer$
    .option pop
    csrrw t0, sscratch, zero
2:  sd   t0, 16(sp)
    sd   ra, 8(sp)
    sd   t1, 48(sp)
    sd   t2, 56(sp)
    sd   s0, 64(sp)
    sd   s1, 72(sp)
    sd   a0, 80(sp)
    sd   a1, 88(sp)
    sd   a2, 96(sp)
    sd   a3, 104(sp)
    sd   a4, 112(sp)
    sd   a5, 120(sp)
    sd   a6, 128(sp)
    sd   a7, 136(sp)
    sd   s2, 144(sp)
    sd   s3, 152(sp)
    sd   s4, 160(sp)
    sd   s5, 168(sp)
    sd   s6, 176(sp)
    sd   s7, 184(sp)
    sd   s8, 192(sp)
    sd   s9, 200(sp)
    sd   s10, 208(sp)
    sd   s11, 216(sp)
    sd   t3, 224(sp)
    sd   t4, 232(sp)
    sd   t5, 240(sp)
    sd   t6, 248(sp)
    csrr t0, sepc
    csrr t1, sstatus
    sd   t0, 256(sp)
    sd   t1, 264(sp)
    mv   a0, sp
    csrr a1, scause
    csrr a2, stval
    # A chain of frame pointers ends here, or goes on in the interrupted kernel code: two words as
    # that code's own call of this would have left. (1 behind it: callers are looked for in front of
    # their return address.)
    addi sp, sp, -16
    addi t0, t0, 1
    sd   s0, 0(sp)
    sd   t0, 8(sp)
    addi s0, sp, 16
    andi t1, t1, 0x100
    bnez t1, 4f
    li   s0, 0
4:  call {trap}
    addi sp, sp, 16

# leave_trap: sp = the frame to return to. A new process starts here too.
    .size trap_entry, . - trap_entry
    .globl leave_trap
    .type leave_trap, @function
leave_trap:
    ld   t0, 256(sp)
    ld   t1, 264(sp)
    csrw sepc, t0
    csrw sstatus, t1
    # SPP selects the mode. In the kernel, tp is the hart's and stays: the thread may be on another
    # hart by now.
    andi t1, t1, 0x100
    bnez t1, 3f
    addi t0, sp, 272
    csrw sscratch, t0
    sd   tp, 272(sp)
    ld   tp, 32(sp)
    ld   gp, 24(sp)
3:  ld   ra, 8(sp)
    ld   t0, 40(sp)
    ld   t1, 48(sp)
    ld   t2, 56(sp)
    ld   s0, 64(sp)
    ld   s1, 72(sp)
    ld   a0, 80(sp)
    ld   a1, 88(sp)
    ld   a2, 96(sp)
    ld   a3, 104(sp)
    ld   a4, 112(sp)
    ld   a5, 120(sp)
    ld   a6, 128(sp)
    ld   a7, 136(sp)
    ld   s2, 144(sp)
    ld   s3, 152(sp)
    ld   s4, 160(sp)
    ld   s5, 168(sp)
    ld   s6, 176(sp)
    ld   s7, 184(sp)
    ld   s8, 192(sp)
    ld   s9, 200(sp)
    ld   s10, 208(sp)
    ld   s11, 216(sp)
    ld   t3, 224(sp)
    ld   t4, 232(sp)
    ld   t5, 240(sp)
    ld   t6, 248(sp)
    ld   sp, 16(sp)
    sret

# The first switch to a thread returns here: to its entry, which has no caller.
    .globl start_thread
    .type start_thread, @function
start_thread:
    li   ra, 0
    jr   s1
    .size start_thread, . - start_thread

# switch_stacks(a0 = where to store the old thread's sp, a1 = the new thread's sp): returns as the
# new thread, from its own last call. For a new thread, context.rs has built that frame.
    .size leave_trap, . - leave_trap
    .globl switch_stacks
    .type switch_stacks, @function
switch_stacks:
    addi sp, sp, -112
    sd   ra, 0(sp)
    sd   s0, 8(sp)
    sd   s1, 16(sp)
    sd   s2, 24(sp)
    sd   s3, 32(sp)
    sd   s4, 40(sp)
    sd   s5, 48(sp)
    sd   s6, 56(sp)
    sd   s7, 64(sp)
    sd   s8, 72(sp)
    sd   s9, 80(sp)
    sd   s10, 88(sp)
    sd   s11, 96(sp)
    sd   sp, 0(a0)
    mv   sp, a1
    ld   ra, 0(sp)
    ld   s0, 8(sp)
    ld   s1, 16(sp)
    ld   s2, 24(sp)
    ld   s3, 32(sp)
    ld   s4, 40(sp)
    ld   s5, 48(sp)
    ld   s6, 56(sp)
    ld   s7, 64(sp)
    ld   s8, 72(sp)
    ld   s9, 80(sp)
    ld   s10, 88(sp)
    ld   s11, 96(sp)
    addi sp, sp, 112
    ret
    .size switch_stacks, . - switch_stacks
