# A hart's entry into the kernel.

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
    # sp = the top of this hart's stack. Hart ids here are 0, 1, 2 ...
    la   sp, stacks
    addi t0, a0, 1
    slli t0, t0, {stack_shift}
    add  sp, sp, t0
    mv   s0, a0
    mv   s1, a1
    # tp = this hart's Kymo block, from here on for ever.
    call {kymo_block}
    mv   tp, a0
    mv   a0, s0
    mv   a1, s1
    beqz a0, 1f
    # The other harts wait until hart 0 has set everything up and passes their argument.
2:  lw   a1, {passed_on}
    beqz a1, 2b
    fence r, rw
    tail {other_hart}
1:  tail {boot_hart}

    .bss
    .balign 16
stacks:
    .space {max_cpus} << {stack_shift}

# For ../trap.s.
    .macro put register, slot
    sw \register, 4*\slot(sp)
    .endm
    .macro get register, slot
    lw \register, 4*\slot(sp)
    .endm
    .macro back
    mret
    .endm
