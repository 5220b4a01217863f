# Trap entry and exit on both RISC-V widths. Each width defines put, get, back and the register
# numbers.

    .text
# Traps come only from this kernel, so they use the interrupted code's stack. pc and status are
# saved too: nested interrupts overwrite both.
    .balign 4
trap_entry:
    addi sp, sp, -20*{word}
    put  ra, 0
    put  t0, 1
    put  t1, 2
    put  t2, 3
    put  t3, 4
    put  t4, 5
    put  t5, 6
    put  t6, 7
    put  a0, 8
    put  a1, 9
    put  a2, 10
    put  a3, 11
    put  a4, 12
    put  a5, 13
    put  a6, 14
    put  a7, 15
    csrr a0, {cause}
    csrr a1, {pc}
    csrr a2, {value}
    csrr a3, {status}
    put  a1, 16
    put  a3, 17
    call {trap}
    get  a1, 16
    get  a3, 17
    csrw {pc}, a1
    csrw {status}, a3
    get  ra, 0
    get  t0, 1
    get  t1, 2
    get  t2, 3
    get  t3, 4
    get  t4, 5
    get  t5, 6
    get  t6, 7
    get  a0, 8
    get  a1, 9
    get  a2, 10
    get  a3, 11
    get  a4, 12
    get  a5, 13
    get  a6, 14
    get  a7, 15
    addi sp, sp, 20*{word}
    back
