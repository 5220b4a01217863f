# The programs that processes run. Each process sees this section at the beginning of its space, wherever it is linked: code refers to itself
# by distances only. a0 is the program's argument. The numbers of the calls are those of syscall.rs.

    .equ EXIT, 0
    .equ GETPID, 1
    .equ YIELD, 2
    .equ SLEEP, 3
    .equ WRITE, 4
    .equ SPAWN, 5
    .equ EXEC, 6
    .equ KILL, 7
    .equ WAIT, 8
    .equ MAP, 9
    .equ MARK, 10
    .equ SPAN_BEGIN, 11
    .equ SPAN_END, 12
    .equ COUNTER, 13
    .equ SEND, 14
    .equ RECEIVE, 15
    .equ PIPE_WRITE, 16
    .equ PIPE_READ, 17

    .macro call number
    li   a7, \number
    ecall
    .endm

    .macro program name
    .balign 4
    .globl user_\name
user_\name:
    .endm

    .section .user, "ax"

# calls(n): n times, asks for what can be had at once; now and then sleeps.
program calls
    mv   s0, a0
    li   s1, 0
1:  li   a0, 1
    call SPAN_BEGIN
    call GETPID
    mv   a1, s1
    li   a0, 7
    call MARK
    call YIELD
    li   a0, 3
    sub  a1, s0, s1
    call COUNTER
    # 4 KiB more of stack each time, for 8 times: pages that nobody asked for.
    andi t0, s1, 7
    slli t0, t0, 12
    sub  t0, sp, t0
    sd   s1, -8(t0)
    li   a0, 1
    call SPAN_END
    andi t0, s1, 31
    bnez t0, 2f
    li   a0, 2000
    call SLEEP
2:  addi s1, s1, 1
    bltu s1, s0, 1b
    # A number that is no call's.
    call 300
    li   a0, 0
    call EXIT

# touch(n): maps n pages, and writes to each, then reads what it wrote. Ends with 1 if that is something else.
program touch
    mv   s0, a0
    call MAP
    mv   s1, a0
    mv   t0, s1
    mv   t1, s0
    li   t3, 4096
1:  sd   t0, 8(t0)
    add  t0, t0, t3
    addi t1, t1, -1
    bnez t1, 1b
    mv   t0, s1
    mv   t1, s0
    li   a0, 0
2:  ld   t2, 8(t0)
    beq  t2, t0, 3f
    li   a0, 1
3:  add  t0, t0, t3
    addi t1, t1, -1
    bnez t1, 2b
    call EXIT

# parent(n): says so, makes children of all kinds, waits for them, becomes `calls`.
program parent
    mv   s0, a0
    la   a0, 9f
    li   a1, 17
    call WRITE
    li   a0, 0
    mv   a1, s0
    call SPAWN
    mv   s1, a0
    li   a0, 1
    li   a1, 40
    call SPAWN
    mv   s2, a0
    # One that goes on until it is killed.
    li   a0, 3
    li   a1, 0
    call SPAWN
    mv   s3, a0
    # One that sleeps until it is killed.
    li   a0, 6
    li   a1, 0
    call SPAWN
    mv   s4, a0
    mv   a0, s1
    call WAIT
    mv   a0, s2
    call WAIT
    mv   a0, s3
    call KILL
    mv   a0, s3
    call WAIT
    mv   a0, s4
    call KILL
    mv   a0, s4
    call WAIT
    # Two that end by their own fault.
    li   a0, 4
    call SPAWN
    call WAIT
    li   a0, 5
    call SPAWN
    call WAIT
    li   a0, 0
    mv   a1, s0
    call EXEC
    call EXIT
9:  .ascii "demo: a process\n"
    .byte 0

# loop: computes, for ever.
program loop
1:  j    1b

# wild: reads what it may not.
program wild
    li   t0, 0x80200000
    ld   t0, 0(t0)
    call EXIT

# illegal: an instruction that there is not.
program illegal
    .balign 4
    .word 0
    call EXIT

# sleeper: sleeps, for a day.
program sleeper
    li   a0, 864000000000
    call SLEEP
    call EXIT

# client(n): n times, sends its number to port 0 and waits for it to come back through port 1.
program client
    mv   s0, a0
    li   s1, 0
1:  li   a0, 0
    addi a1, s1, 1
    call SEND
    li   a0, 1
    call RECEIVE
    addi s1, s1, 1
    bne  a0, s1, wrong
    bltu s1, s0, 1b
    call EXIT

# server(n): takes n messages from port 0, and sends those that are not 0 back through port 1.
program server
    mv   s0, a0
1:  li   a0, 0
    call RECEIVE
    beqz a0, 2f
    mv   a1, a0
    li   a0, 1
    call SEND
2:  addi s0, s0, -1
    bnez s0, 1b
    call EXIT

# puts(n): n bytes into pipe 0, 24 at a time: those of the numbers from 0 on.
program puts
    mv   s0, a0
    li   s1, 0
    addi sp, sp, -32
1:  li   t0, 0
2:  add  t1, sp, t0
    add  t2, s1, t0
    sb   t2, 0(t1)
    addi t0, t0, 1
    li   t2, 24
    bne  t0, t2, 2b
    # As many as are missing, if that is less.
    sub  a2, s0, s1
    bltu a2, t2, 3f
    mv   a2, t2
3:  li   a0, 0
    mv   a1, sp
    call PIPE_WRITE
    bltz a0, wrong
    add  s1, s1, a0
    bltu s1, s0, 1b
    call EXIT

# gets(n): n bytes out of pipe 0, and sees that they are right.
program gets
    mv   s0, a0
    li   s1, 0
    addi sp, sp, -32
1:  li   a0, 0
    mv   a1, sp
    li   a2, 32
    call PIPE_READ
    blez a0, wrong
    mv   t0, sp
2:  lbu  t1, 0(t0)
    andi t2, s1, 255
    bne  t1, t2, wrong
    addi t0, t0, 1
    addi s1, s1, 1
    addi a0, a0, -1
    bnez a0, 2b
    bltu s1, s0, 1b
    call EXIT

# sends(n): n times 0 to port 0.
program sends
    mv   s0, a0
1:  li   a0, 0
    li   a1, 0
    call SEND
    addi s0, s0, -1
    bnez s0, 1b
    call EXIT

# Where a program ends that has seen what it must not: an exception that the trace shows.
wrong:
    ebreak
