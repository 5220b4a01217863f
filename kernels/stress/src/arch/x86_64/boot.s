# A CPU's entry into the kernel and 64-bit mode, and interrupt entry and exit.

# QEMU starts the first CPU at the address in this note: 32 bits, no paging, ebx = start
# information.
    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18                      # sizes of name and value; XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long _start

    .section .text.entry, "ax"
    .code32
    .globl _start
_start:
    # Maps the first 4 GiB at their own addresses in 2 MiB pages: one table of level 4, one of level
    # 3, four of level 2.
    movl $level3 + 3, level4
    movl $level2 + 3, %eax              # 3: present, writable
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

# All CPUs: paging and 64 bits.
long_mode:
    movl %cr4, %eax
    orl  $0x20, %eax                    # physical address extension
    movl %eax, %cr4
    movl $level4, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx              # EFER: long mode enable
    rdmsr
    orl  $0x100, %eax
    wrmsr
    movl %cr0, %eax
    orl  $0x80000000, %eax              # paging
    movl %eax, %cr0
    lgdtl gdt_pointer
    ljmpl $8, $entry64

    .code64
entry64:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw %ax, %fs
    movw %ax, %gs
    # The CPU's number is its local APIC's id; its stack is stacks[number].
    movl $0xfee00020, %edi
    movl (%rdi), %edi
    shrl $24, %edi
    leal 1(%rdi), %esp
    shll ${stack_shift}, %esp
    addl $stacks, %esp
    movl %ebx, %esi
    xorl %ebp, %ebp
    call {enter}

# The other CPUs start here, in 16 bits; the first one has copied this to {trampoline}.
    .globl trampoline, trampoline_end
    .code16
    .balign 8
trampoline:
    jmp  3f
    .balign 8
    .word 31
    .long gdt
3:  cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl {trampoline} + 8
    movl %cr0, %eax
    orl  $1, %eax                       # protected mode
    movl %eax, %cr0
    ljmpl $24, $protected
trampoline_end:
    .code32
protected:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %ss
    xorl %ebx, %ebx                     # no start information: it is another CPU
    jmp  long_mode
    .code64

    .section .rodata
    .balign 8
gdt:                                    # nothing; code of 64 bits; data; code of 32 bits
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff, 0x00cf9a000000ffff
gdt_pointer:
    .word 31
    .long gdt

    .bss
    .balign 4096
level4: .space 4096
level3: .space 4096
level2: .space 4 * 4096
stacks: .space {max_cpus} << {stack_shift}

    .text
# Interrupts come only from this kernel (there is no user mode), so they use the interrupted code's
# stack, which has no red zone, and gs is right, in NMIs too. Caller-saved registers are saved here;
# the processor saves the rest, and first aligns the stack to 16.
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
    movq 72(%rsp), %rdi                 # the interrupted instruction
    cld
    call \function
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
    entry interrupt_entry, {interrupt}
    entry nmi_entry, {nmi}

# Exceptions are fatal; some push an error code after the address.
    .globl exception_entry
exception_entry:
    movq (%rsp), %rdi
    movq 8(%rsp), %rsi
    andq $-16, %rsp
    call {exception}

# Spurious interrupts.
    .globl spurious_entry
spurious_entry:
    iretq
