# What Rust cannot express: a hart's entry, trap entry and exit, the switch between two threads.

    .section .text.entry, "ax"
    .globl _start
# The firmware starts one hart here (a0 = hart id, a1 = device tree) ...
_start:
    la   s2, {boot_main}
    j    1f
# ... and that hart makes the firmware start the others here (a0 = hart id, a1 = the argument from
# boot_main).
    .globl start_hart
start_hart:
    la   s2, {hart_main}
1:  .option push
    .option norelax
    la   gp, __global_pointer$
    .option pop
    la   t0, trap_entry
    csrw stvec, t0
    # sp = the top of this hart's boot stack, stacks[0][hart]. Hart ids here are 0, 1, 2 ...
    la   sp, stacks
    addi t0, a0, 1
    slli t0, t0, {stack_shift}
    add  sp, sp, t0
    mv   s0, a0
    mv   s1, a1
    # tp = this hart's Kymo block, from here on for ever: no thread changes it.
    call {kymo_block}
    mv   tp, a0
    mv   a0, s0
    mv   a1, s1
    jr   s2

    .bss
    .balign 16
    .globl stacks
# [slot][hart]: slot 0 is a hart's boot stack, 1 and 2 are its threads' stacks.
stacks:
    .space 3 * {max_harts} << {stack_shift}

    .text
# Traps come only from this kernel (there is no user mode), so they use the interrupted thread's
# stack. Only caller-saved registers are saved; the switch below saves the rest. sepc and sstatus
# are saved too: another thread may be interrupted before this one runs again.
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

# switch_stacks(a0 = where to store the old thread's sp, a1 = the new thread's sp): returns as the
# new thread, from its own last call. For a new thread, sched.rs has built that frame.
    .globl switch_stacks
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
