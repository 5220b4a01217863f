// A hart's entry into the kernel, at EL1 with all interrupts masked.

    .section .text.entry, "ax"
    .globl _start
// QEMU starts hart 0 here ...
_start:
    adrp x20, {boot_hart}
    add  x20, x20, :lo12:{boot_hart}
    b    1f
// ... and that hart makes the firmware start the others here.
    .globl start_hart
start_hart:
    adrp x20, {other_hart}
    add  x20, x20, :lo12:{other_hart}
1:  adrp x1, vectors
    add  x1, x1, :lo12:vectors
    msr  vbar_el1, x1
    // A hart is known by the lowest part of its affinity: 0, 1, 2 ...
    mrs  x0, mpidr_el1
    and  x0, x0, 0xff
    // sp = the top of this hart's boot stack, which its idle thread keeps.
    add  x1, x0, 1
    lsl  x1, x1, {stack_shift}
    adrp x2, boot_stacks
    add  x2, x2, :lo12:boot_stacks
    add  x1, x1, x2
    msr  spsel, 1
    mov  sp, x1
    mov  x29, 0
    mov  x30, 0
    br   x20

    .bss
    .balign 16
    .globl boot_stacks
boot_stacks:
    .space {max_harts} << {stack_shift}
