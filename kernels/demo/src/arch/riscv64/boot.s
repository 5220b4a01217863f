# A hart's entry into the kernel.

    .section .text.entry, "ax"
    .globl _start
# The firmware starts one hart here (a0 = hart id, a1 = device tree) ...
_start:
    la   s2, {boot_hart}
    j    1f
# ... and that hart makes the firmware start the others here (a0 = hart id).
    .globl start_hart
start_hart:
    la   s2, {other_hart}
1:  .option push
    .option norelax
    la   gp, __global_pointer$
    .option pop
    la   t0, trap_entry
    csrw stvec, t0
    # 0: the hart is in the kernel (trap.s).
    csrw sscratch, zero
    # sp = the top of this hart's boot stack, which its idle thread keeps. Hart ids here are 0, 1, 2
    # ...
    la   sp, boot_stacks
    addi t0, a0, 1
    slli t0, t0, {stack_shift}
    add  sp, sp, t0
    mv   s0, a0
    mv   s1, a1
    # tp = this hart's Kymo block, always in the kernel.
    call {kymo_block}
    mv   tp, a0
    mv   a0, s0
    mv   a1, s1
    li   ra, 0
    li   s0, 0
    jr   s2

    .bss
    .balign 16
    .globl boot_stacks
boot_stacks:
    .space {max_harts} << {stack_shift}
