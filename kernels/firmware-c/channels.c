/* Pipes and message queues: rings, and who waits for room or for what is in them. */
#include "events.h"
#include "rtos.h"

static size_t take(struct pipe *pipe, uint8_t *bytes, size_t size) {
    size_t taken = size < pipe->used ? size : pipe->used;
    for (size_t i = 0; i < taken; i++)
        bytes[i] = pipe->bytes[(pipe->first + i) % pipe->size];
    pipe->first = (pipe->first + taken) % pipe->size;
    pipe->used -= taken;
    if (taken > 0) {
        kymo_pipe_read_masked((uintptr_t)pipe, (uint32_t)taken);
        statistics.read += (unsigned)taken;
        task_wake_first(&pipe->writers);
    }
    return taken;
}

static size_t put(struct pipe *pipe, const uint8_t *bytes, size_t size) {
    size_t room = pipe->size - pipe->used;
    size_t given = size < room ? size : room;
    for (size_t i = 0; i < given; i++)
        pipe->bytes[(pipe->first + pipe->used + i) % pipe->size] = bytes[i];
    pipe->used += given;
    if (given > 0) {
        kymo_pipe_write_masked((uintptr_t)pipe, (uint32_t)given);
        statistics.written += (unsigned)given;
        task_wake_first(&pipe->readers);
    }
    return given;
}

size_t pipe_try_read(struct pipe *pipe, void *bytes, size_t size) {
    uintptr_t saved = interrupts_mask();
    size_t taken = take(pipe, bytes, size);
    schedule_if_needed();
    interrupts_restore(saved);
    return taken;
}

size_t pipe_try_write(struct pipe *pipe, const void *bytes, size_t size) {
    uintptr_t saved = interrupts_mask();
    size_t given = put(pipe, bytes, size);
    schedule_if_needed();
    interrupts_restore(saved);
    return given;
}

size_t pipe_read(struct pipe *pipe, void *bytes, size_t size) {
    uintptr_t saved = interrupts_mask();
    while (size > 0 && pipe->used == 0)
        task_block(&pipe->readers, TASK_BLOCKED);
    size_t taken = take(pipe, bytes, size);
    schedule_if_needed();
    interrupts_restore(saved);
    return taken;
}

void pipe_write(struct pipe *pipe, const void *bytes, size_t size) {
    const uint8_t *rest = bytes;
    uintptr_t saved = interrupts_mask();
    while (size > 0) {
        size_t given = put(pipe, rest, size);
        rest += given;
        size -= given;
        if (size > 0)
            task_block(&pipe->writers, TASK_BLOCKED);
    }
    schedule_if_needed();
    interrupts_restore(saved);
}

void message_send(struct messages *messages, uint32_t message) {
    uintptr_t saved = interrupts_mask();
    while (messages->used == messages->size)
        task_block(&messages->senders, TASK_BLOCKED);
    messages->words[(messages->first + messages->used++) % messages->size] = message;
    statistics.sent++;
    kymo_queue_send_masked((uintptr_t)messages, (uint32_t)messages->used);
    task_wake_first(&messages->receivers);
    schedule_if_needed();
    interrupts_restore(saved);
}

uint32_t message_receive(struct messages *messages) {
    uintptr_t saved = interrupts_mask();
    while (messages->used == 0)
        task_block(&messages->receivers, TASK_BLOCKED);
    uint32_t message = messages->words[messages->first];
    messages->first = (messages->first + 1) % messages->size;
    messages->used--;
    statistics.received++;
    kymo_queue_receive_masked((uintptr_t)messages, (uint32_t)messages->used);
    task_wake_first(&messages->senders);
    schedule_if_needed();
    interrupts_restore(saved);
    return message;
}
