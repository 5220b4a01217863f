# A processor's way into the kernel, from 16 or 32 bits to 64.

# QEMU starts the first processor at the address in this note: 32 bits, no paging, ebx = the
# structure `hvm_start_info`.
    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18                      # sizes of name and value; XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long _start

    .section .text.entry, "ax"
    .code32
    .globl _start
_start:
    # The first gigabyte at its own address, until paging.rs has mapped more: a table of level 4, one
    # of level 3, and one of 2 MiB pages.
    movl $boot_level3 + 3, boot_level4  # 3: present, writable
    movl $boot_level2 + 3, boot_level3
    movl $0x83, %eax                    # and 0x80: a large page
    xorl %ecx, %ecx
1:  movl %eax, boot_level2(, %ecx, 8)
    addl $0x200000, %eax
    incl %ecx
    cmpl $512, %ecx
    jne  1b

# Every processor: 64 bits. ebx = 0, except on the first one.
long_mode:
    movl $0x20, %eax                    # CR4: physical address extension
    movl %eax, %cr4
    movl $boot_level4, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx              # EFER: long mode, and pages without execution
    rdmsr
    orl  $0x900, %eax
    wrmsr
    # CR0: paging, write protection for the kernel too, protected mode, and no coprocessor: neither
    # the kernel nor its programs use one.
    movl $0x80010035, %eax
    movl %eax, %cr0
    lgdtl boot_gdt_pointer
    ljmpl $8, $1f
    .code64
1:  movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    xorl %eax, %eax
    movw %ax, %fs
    movw %ax, %gs
    movl %ebx, %esi
    # A hart is known by the id of its local APIC: 0, 1, 2 ...
    movl $1, %eax
    cpuid
    shrl $24, %ebx
    movl %ebx, %edi
    # The top of its boot stack, which its idle thread keeps.
    leal 1(%rdi), %esp
    shll ${stack_shift}, %esp
    addl $boot_stacks, %esp
    xorl %ebp, %ebp
    testl %esi, %esi
    jz   2f
    call {boot_hart}
2:  call {other_hart}

# The other processors start here, in 16 bits; the first one has copied this to {trampoline}.
    .globl trampoline, trampoline_end
    .code16
    .balign 8
trampoline:
    jmp  3f
    .balign 8
    .word 31
    .long boot_gdt
3:  cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl {trampoline} + 8
    movl $0x11, %eax                    # CR0: protected mode
    movl %eax, %cr0
    ljmpl $24, $protected
trampoline_end:
    .code32
protected:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %ss
    xorl %ebx, %ebx
    jmp  long_mode
    .code64

    .section .rodata
    .balign 8
boot_gdt:                               # nothing; code of 64 bits; data; code of 32 bits
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff, 0x00cf9a000000ffff
boot_gdt_pointer:
    .word 31
    .long boot_gdt

    .bss
    .balign 4096
boot_level4: .space 4096
boot_level3: .space 4096
boot_level2: .space 4096
    .globl boot_stacks
boot_stacks: .space {max_harts} << {stack_shift}
