# Entry of hart 0, in M-mode. The result of main ends QEMU; a trap ends it as a failure.
    .section .text.entry, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, stack_top
    la t0, trap
    csrw mtvec, t0
    la t0, bss_start
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  call main
    li t1, 0x5555
    beqz a0, 3f
    .balign 4
trap:
    li t1, 0x13333
3:  li t0, 0x100000
    sw t1, 0(t0)
4:  j 4b
