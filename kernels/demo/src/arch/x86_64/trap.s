# Trap entry and exit, and the switch between two threads.
#
# Every vector has a stub, which completes what the processor pushes to a `TrapFrame` (trap.rs): an
# error code where there is none, and the vector. From user mode, that is at the top of the running
# thread's kernel stack, which leave_trap has written into the task state segment.
#
# gs is this hart's `PerHart` in the kernel, and the program's in user mode: `swapgs` exchanges them
# at every entry from user mode and exit to it. Interrupts are masked at these places; only an NMI
# can come between.

    .macro stub vector
    .text
1:  pushq $0
    pushq $\vector
    jmp  trap_entry
    .section .rodata
    .quad 1b
    .endm
    .macro stub_error vector
    .text
1:  pushq $\vector
    jmp  trap_entry
    .section .rodata
    .quad 1b
    .endm

# The stubs of the vectors 0 to 31, of those that trap.rs uses behind them, and of the call.
    .section .rodata
    .balign 8
    .globl trap_stubs
trap_stubs:
    .irp vector, 0, 1, 2, 3, 4, 5, 6, 7
    stub \vector
    .endr
    stub_error 8
    stub 9
    .irp vector, 10, 11, 12, 13, 14
    stub_error \vector
    .endr
    stub 15
    stub 16
    stub_error 17
    .irp vector, 18, 19, 20
    stub \vector
    .endr
    stub_error 21
    .irp vector, 22, 23, 24, 25, 26, 27, 28
    stub \vector
    .endr
    stub_error 29
    stub_error 30
    .irp vector, 31, 32, 33, 34, 35, 36
    stub \vector
    .endr
    .globl call_stub
call_stub:
    stub {call}

    .macro push_registers
    pushq %rax
    pushq %rbx
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %rbp
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    cld
    .endm
    .macro pop_registers
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rbp
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rbx
    popq %rax
    addq $16, %rsp
    .endm

    .text
    .balign 16
    .globl trap_entry
    .type trap_entry, @function
trap_entry:
    testb $3, 24(%rsp)                  # cs: did it come from user mode?
    jz   1f
    .globl gs_entry
gs_entry:
    swapgs
1:  push_registers
    movq %rsp, %rdi
    # A chain of frame pointers ends here, or goes on in the interrupted kernel code: two words as
    # that code's own call of this would have left. (1 behind it: callers are looked for in front of
    # their return address.)
    movq {rip}(%rdi), %rax
    incq %rax
    pushq %rax
    pushq %rbp
    movq %rsp, %rbp
    testb $3, {cs}(%rdi)
    jz   2f
    xorl %ebp, %ebp
2:  call {trap}
    addq $16, %rsp

# leave_trap: rsp = the frame to return to. A new process starts here too.
    .size trap_entry, . - trap_entry
    .globl leave_trap
    .type leave_trap, @function
leave_trap:
    testb $3, {cs}(%rsp)
    jz   3f
    # The next trap from user mode begins behind this frame.
    leaq {frame}(%rsp), %rax
    movq %rax, %gs:{stack}
    swapgs
3:  pop_registers
    iretq
    .size leave_trap, . - leave_trap

# An NMI has a stack of its own, behind whose top is the address of the hart's `PerHart`. It comes
# anywhere, also where gs does not fit to the mode: it takes that address, and leaves gs as it was.
    .globl nmi_stub
    .type nmi_stub, @function
nmi_stub:
    pushq $0
    pushq $2
    push_registers
    movl $0xc0000101, %ecx              # the base of gs
    rdmsr
    shlq $32, %rdx
    leaq (%rax, %rdx), %rbx
    movq {frame}(%rsp), %rax
    cmpq %rax, %rbx
    je   4f
    movq %rax, %rdx
    shrq $32, %rdx
    wrmsr
    testb $3, {cs}(%rsp)
    jnz  4f
    incq %gs:{between}
4:  testb $3, {cs}(%rsp)
    jz   5f
    xorl %ebp, %ebp
5:  movq %rsp, %rdi
    call {nmi}
    cmpq {frame}(%rsp), %rbx
    je   6f
    movl $0xc0000101, %ecx
    movq %rbx, %rax
    movq %rbx, %rdx
    shrq $32, %rdx
    wrmsr
6:  pop_registers
    iretq
    .size nmi_stub, . - nmi_stub

# switch_stacks(rdi = where to store the old thread's rsp, rsi = the new thread's rsp): returns as
# the new thread, from its own last call. For a new thread, context.rs has built that frame.
    .globl switch_stacks
    .type switch_stacks, @function
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
    retq
    .size switch_stacks, . - switch_stacks
