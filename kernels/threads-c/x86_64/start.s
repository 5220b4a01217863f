# From 32 bits, as a PVH loader (or QEMU) leaves the processor, to 64; the interrupts; the exchange of
# two stacks.

    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18                      # sizes of name and value; XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long _start

    .text
    .code32
    .globl _start
_start:
    # Four gigabytes at their own addresses, in pages of 2 MiB.
    movl $level3 + 3, level4            # 3: present, writable
    movl $level2 + 3, %eax
    xorl %ecx, %ecx
1:  movl %eax, level3(, %ecx, 8)
    addl $4096, %eax
    incl %ecx
    cmpl $4, %ecx
    jne  1b
    movl $0x83, %eax                    # and 0x80: a large page
    xorl %ecx, %ecx
2:  movl %eax, level2(, %ecx, 8)
    addl $0x200000, %eax
    incl %ecx
    cmpl $2048, %ecx
    jne  2b
    movl $0x20, %eax                    # CR4: physical address extension
    movl %eax, %cr4
    movl $level4, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx              # EFER: long mode
    rdmsr
    orl  $0x100, %eax
    wrmsr
    movl $0x80000011, %eax              # CR0: paging, protected mode
    movl %eax, %cr0
    lgdtl table
    ljmpl $8, $3f
    .code64
3:  movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    leaq stack_top(%rip), %rsp
    xorl %ebp, %ebp
    pushq $0
    popfq
    call main
4:  hlt
    jmp  4b

# An interrupt saves what a C function may change, and passes it.
    .macro entry name, function
    .globl \name
\name:
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %rbp
    cld
    movq %rsp, %rdi
    # Ten and the processor's five: the stack is aligned again with one more.
    subq $8, %rsp
    call \function
    addq $8, %rsp
    popq %rbp
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rax
    iretq
    .endm
    entry timer_entry, timer_interrupt
    entry nmi_entry, nmi

# switch_stacks(uintptr_t **from, uintptr_t *to)
    .globl switch_stacks
switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret

# Where a thread begins, at r12. A frame pointer of 0 ends chains of callers.
    .globl thread_begin
thread_begin:
    xorl %ebp, %ebp
    sti
    call *%r12
    call thread_exit

    .section .rodata
    .balign 8
segments:                               # nothing; code of 64 bits; data
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
table:
    .word 23
    .long segments

    .bss
    .balign 4096
level4: .space 4096
level3: .space 4096
level2: .space 4 * 4096

    .section .note.GNU-stack, "", @progbits
