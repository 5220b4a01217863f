# Entry of hart 0, in M-mode. FreeRTOS handles the traps.
    .section .text.entry, "ax"
    .globl _start
_start:
    csrr t0, mhartid
    bnez t0, 3f
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, stack_top
    la t0, freertos_risc_v_trap_handler
    csrw mtvec, t0
    la t0, bss_start
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  call main
3:  wfi
    j 3b
