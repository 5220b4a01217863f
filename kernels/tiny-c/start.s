# Entry of hart 0, in M-mode: a stack, zeroed data, and main. Its result ends QEMU.
    .section .text.entry, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, stack_top
    la t0, bss_start
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  call main
    # QEMU's sifive_test device: exit with the result.
    li t0, 0x100000
    li t1, 0x5555
    beqz a0, 3f
    slli a0, a0, 16
    li t1, 0x3333
    or t1, t1, a0
3:  sw t1, 0(t0)
    j 3b
