@ QEMU's MPS2 boards with a Cortex-M, by instructions that Armv6-M has; threads and interrupts use one
@ stack pointer. The timer's handler leaves its exception at once, for code that may switch stacks.

    .syntax unified
    .section .vectors, "a"
    .word stack_top
    .word _start
    .rept 9
    .word unexpected
    .endr
    .word go_on             @ 11: SVC
    .rept 3
    .word unexpected
    .endr
    .word timer_entry       @ 15: SysTick

    .text
    .thumb
    .globl _start
    .thumb_func
_start:
    movs r0, #0
    mov  r7, r0
    ldr  r1, =bss_begin
    ldr  r2, =bss_end
1:  cmp  r1, r2
    bhs  2f
    str  r0, [r1]
    adds r1, #4
    b    1b
2:  cpsid i
    bl   main

@ Returns from the exception to timer_thread, with interrupts masked. What was interrupted stays on
@ the stack: r0 to r3, r12, lr, its address and its status.
    .thumb_func
timer_entry:
    sub  sp, #32
    ldr  r0, =timer_thread
    str  r0, [sp, #24]
    ldr  r0, =0x01000000    @ Thumb
    str  r0, [sp, #28]
    cpsid i
    bx   lr

timer_thread:
    push {r6, r7}
    mov  r0, sp
    bl   timer_interrupt
    pop  {r6, r7}
    cpsie i
    svc  #0

@ Drops what the call has put on the stack, and so goes on with what the timer has interrupted.
    .thumb_func
go_on:
    add  sp, #32
    bx   lr

@ switch_stacks(uintptr_t **from, uintptr_t *to)
    .globl switch_stacks
    .thumb_func
switch_stacks:
    push {r4, r5, r6, r7, lr}
    mov  r4, r8
    mov  r5, r9
    mov  r6, r10
    mov  r7, r11
    push {r4, r5, r6, r7}
    mov  r2, sp
    str  r2, [r0]
    mov  sp, r1
    pop  {r4, r5, r6, r7}
    mov  r8, r4
    mov  r9, r5
    mov  r10, r6
    mov  r11, r7
    pop  {r4, r5, r6, r7, pc}

@ Where a thread begins, at r4. A frame pointer of 0 ends chains of callers.
    .globl thread_begin
    .thumb_func
thread_begin:
    movs r0, #0
    mov  r7, r0
    cpsie i
    blx  r4
    bl   thread_exit
