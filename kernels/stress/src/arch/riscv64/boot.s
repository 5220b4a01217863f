# How a hart enters the kernel, how a trap enters and leaves.

    .section .text.entry, "ax"
    .globl _start
# The firmware starts one hart here (a0 = hart id, a1 = device tree) ...
_start:
    la   s2, {boot_hart}
    j    1f
# ... and that hart has the firmware start the others here (a0 = hart id, a1 = what it passes on).
    .globl start_hart
start_hart:
    la   s2, {other_hart}
1:  .option push
    .option norelax
    la   gp, __global_pointer$
    .option pop
    la   t0, trap_entry
    csrw stvec, t0
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
    jr   s2

    .bss
    .balign 16
stacks:
    .space {max_cpus} << {stack_shift}

    .text
# Everything comes from this kernel, so the interrupted code's stack is good to use. sepc and sstatus are saved too: the handler lets other
# interrupts in, and they write both.
    .balign 4
trap_entry:
    addi sp, sp, -144
    sd   ra, 0(sp)
    sd   t0, 8(sp)
    sd   t1, 16(sp)
    sd   t2, 24(sp)
    sd   t3, 32(sp)
    sd   t4, 40(sp)
    sd   t5, 48(sp)
    sd   t6, 56(sp)
    sd   a0, 64(sp)
    sd   a1, 72(sp)
    sd   a2, 80(sp)
    sd   a3, 88(sp)
    sd   a4, 96(sp)
    sd   a5, 104(sp)
    sd   a6, 112(sp)
    sd   a7, 120(sp)
    csrr a0, scause
    csrr a1, sepc
    csrr a2, stval
    csrr a3, sstatus
    sd   a1, 128(sp)
    sd   a3, 136(sp)
    call {trap}
    ld   a1, 128(sp)
    ld   a3, 136(sp)
    csrw sepc, a1
    csrw sstatus, a3
    ld   ra, 0(sp)
    ld   t0, 8(sp)
    ld   t1, 16(sp)
    ld   t2, 24(sp)
    ld   t3, 32(sp)
    ld   t4, 40(sp)
    ld   t5, 48(sp)
    ld   t6, 56(sp)
    ld   a0, 64(sp)
    ld   a1, 72(sp)
    ld   a2, 80(sp)
    ld   a3, 88(sp)
    ld   a4, 96(sp)
    ld   a5, 104(sp)
    ld   a6, 112(sp)
    ld   a7, 120(sp)
    addi sp, sp, 144
    sret
