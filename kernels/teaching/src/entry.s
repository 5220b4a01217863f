# Where a hart begins, the two trap vectors, and the switch between two contexts.

# Every hart begins here in machine mode, with its id in a0.
.section .text.entry, "ax"
.globl _entry
_entry:
    li   t0, {max_cpus}
    bgeu a0, t0, park
    la   sp, BOOT_STACKS
    addi t0, a0, 1
    slli t0, t0, {stack_bits}
    add  sp, sp, t0
    call machine_start
park:
    wfi
    j    park

.text

# Machine mode takes only the timer interrupt: it sets the next one and passes it on as the
# supervisor's software interrupt. mscratch points to the hart's `TimerArea`.
.globl machine_timer
.balign 4
machine_timer:
    csrrw a0, mscratch, a0
    sd   a1, 0(a0)
    sd   a2, 8(a0)
    sd   a3, 16(a0)
    ld   a1, 24(a0)             # the address of this hart's mtimecmp
    ld   a2, 32(a0)             # the interval
    ld   a3, 0(a1)
    add  a3, a3, a2
    sd   a3, 0(a1)
    csrsi mip, 2
    ld   a3, 16(a0)
    ld   a2, 8(a0)
    ld   a1, 0(a0)
    csrrw a0, mscratch, a0
    mret

# A trap in supervisor mode: it runs on the stack of whatever it interrupted.
.globl supervisor_trap
.balign 4
supervisor_trap:
    addi sp, sp, -128
    sd   ra, 0(sp)
    sd   t0, 8(sp)
    sd   t1, 16(sp)
    sd   t2, 24(sp)
    sd   t3, 32(sp)
    sd   t4, 40(sp)
    sd   t5, 48(sp)
    sd   t6, 56(sp)
    sd   a0, 64(sp)
    sd   a1, 72(sp)
    sd   a2, 80(sp)
    sd   a3, 88(sp)
    sd   a4, 96(sp)
    sd   a5, 104(sp)
    sd   a6, 112(sp)
    sd   a7, 120(sp)
    call trap
    ld   ra, 0(sp)
    ld   t0, 8(sp)
    ld   t1, 16(sp)
    ld   t2, 24(sp)
    ld   t3, 32(sp)
    ld   t4, 40(sp)
    ld   t5, 48(sp)
    ld   t6, 56(sp)
    ld   a0, 64(sp)
    ld   a1, 72(sp)
    ld   a2, 80(sp)
    ld   a3, 88(sp)
    ld   a4, 96(sp)
    ld   a5, 104(sp)
    ld   a6, 112(sp)
    ld   a7, 120(sp)
    addi sp, sp, 128
    sret

# switch_context(from, to): saves what a call must preserve in `from` and goes on where `to` was.
.globl switch_context
switch_context:
    sd   ra, 0(a0)
    sd   sp, 8(a0)
    sd   s0, 16(a0)
    sd   s1, 24(a0)
    sd   s2, 32(a0)
    sd   s3, 40(a0)
    sd   s4, 48(a0)
    sd   s5, 56(a0)
    sd   s6, 64(a0)
    sd   s7, 72(a0)
    sd   s8, 80(a0)
    sd   s9, 88(a0)
    sd   s10, 96(a0)
    sd   s11, 104(a0)
    ld   ra, 0(a1)
    ld   sp, 8(a1)
    ld   s0, 16(a1)
    ld   s1, 24(a1)
    ld   s2, 32(a1)
    ld   s3, 40(a1)
    ld   s4, 48(a1)
    ld   s5, 56(a1)
    ld   s6, 64(a1)
    ld   s7, 72(a1)
    ld   s8, 80(a1)
    ld   s9, 88(a1)
    ld   s10, 96(a1)
    ld   s11, 104(a1)
    ret
