# Entry in protected mode, as a multiboot loader (or QEMU) leaves the processor; the timer's
# interrupt; the exchange of two stacks.

    .section .multiboot, "a"
    .align 4
    .long 0x1badb002, 0, -0x1badb002

    .text
    .globl _start
_start:
    lgdt table
    ljmp $8, $1f
1:  mov $16, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $stack_top, %esp
    xor %ebp, %ebp
    push $0
    popf
    call main
2:  hlt
    jmp 2b

# One interrupt: it saves what a C function may change, and passes it.
    .globl timer_entry
timer_entry:
    pushal
    cld
    push %esp
    call timer_interrupt
    add $4, %esp
    popal
    iret

# switch_stacks(uintptr_t **from, uintptr_t *to)
    .globl switch_stacks
switch_stacks:
    mov 4(%esp), %eax
    mov 8(%esp), %edx
    push %ebp
    push %ebx
    push %esi
    push %edi
    mov %esp, (%eax)
    mov %edx, %esp
    pop %edi
    pop %esi
    pop %ebx
    pop %ebp
    ret

# Where a thread begins, at esi. A frame pointer of 0 ends chains of callers.
    .globl thread_begin
thread_begin:
    xor %ebp, %ebp
    sti
    call *%esi
    call thread_exit

    .section .rodata
    .align 8
segments:
    .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
table:
    .word 23
    .long segments

    .section .note.GNU-stack, "", @progbits
