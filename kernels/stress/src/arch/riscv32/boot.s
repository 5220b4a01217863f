# How a hart enters the kernel, how a trap enters and leaves.

    .section .text.entry, "ax"
    .globl _start
# There is no firmware: every hart starts here, in M-mode (a0 = hart id, a1 = device tree).
_start:
    .option push
    .option norelax
    la   gp, __global_pointer$
    .option pop
    la   t0, trap_entry
    csrw mtvec, t0
    # sp = the top of this hart's stack. Hart ids on this machine are 0, 1, 2 ...
    la   sp, stacks
    addi t0, a0, 1
    slli t0, t0, {stack_shift}
    add  sp, sp, t0
    mv   s0, a0
    mv   s1, a1
    # tp = this hart's Kymo block, from here on and for good.
    call {kymo_block}
    mv   tp, a0
    mv   a0, s0
    mv   a1, s1
    beqz a0, 1f
    # The others wait until hart 0 has set everything up, and passes on what they need.
2:  lw   a1, {passed_on}
    beqz a1, 2b
    fence r, rw
    tail {other_hart}
1:  tail {boot_hart}

    .bss
    .balign 16
stacks:
    .space {max_cpus} << {stack_shift}

    .text
# Everything comes from this kernel, so the interrupted code's stack is good to use. mepc and mstatus are saved too: the handler lets other
# interrupts in, and they write both.
    .balign 4
trap_entry:
    addi sp, sp, -80
    sw   ra, 0(sp)
    sw   t0, 4(sp)
    sw   t1, 8(sp)
    sw   t2, 12(sp)
    sw   t3, 16(sp)
    sw   t4, 20(sp)
    sw   t5, 24(sp)
    sw   t6, 28(sp)
    sw   a0, 32(sp)
    sw   a1, 36(sp)
    sw   a2, 40(sp)
    sw   a3, 44(sp)
    sw   a4, 48(sp)
    sw   a5, 52(sp)
    sw   a6, 56(sp)
    sw   a7, 60(sp)
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    csrr a3, mstatus
    sw   a1, 64(sp)
    sw   a3, 68(sp)
    call {trap}
    lw   a1, 64(sp)
    lw   a3, 68(sp)
    csrw mepc, a1
    csrw mstatus, a3
    lw   ra, 0(sp)
    lw   t0, 4(sp)
    lw   t1, 8(sp)
    lw   t2, 12(sp)
    lw   t3, 16(sp)
    lw   t4, 20(sp)
    lw   t5, 24(sp)
    lw   t6, 28(sp)
    lw   a0, 32(sp)
    lw   a1, 36(sp)
    lw   a2, 40(sp)
    lw   a3, 44(sp)
    lw   a4, 48(sp)
    lw   a5, 52(sp)
    lw   a6, 56(sp)
    lw   a7, 60(sp)
    addi sp, sp, 80
    mret
