/* Tasks whose work is known, on FreeRTOS: it counts what it does itself, and prints it. */
#include "FreeRTOS.h"
#include "queue.h"
#include "semphr.h"
#include "task.h"

#define MESSAGES 20u
#define ROUNDS 10u
#define UART ((volatile uint8_t *)0x10000000)
#define TEST_DEVICE ((volatile uint32_t *)0x100000)
#define SOFTWARE_INTERRUPT ((volatile uint32_t *)0x2000000)

static volatile struct {
    unsigned ticks, interrupts, sent, received, taken, given, signalled, waited, created, ended;
} counts;
static QueueHandle_t messages;
static SemaphoreHandle_t lock, signal;

static void print(const char *text) {
    while (*text != '\0')
        *UART = (uint8_t)*text++;
}

static void print_count(unsigned count, const char *what) {
    char digits[11] = "";
    char *at = &digits[10];
    do {
        *--at = (char)('0' + count % 10);
        count /= 10;
    } while (count > 0);
    print(at);
    print(" ");
    print(what);
    print("\n");
}

void application_failed(const char *file, int line) {
    print(file);
    print_count((unsigned)line, "is the line of a failed assertion");
    *TEST_DEVICE = 0x13333;
}

void vApplicationTickHook(void) { counts.ticks++; }

/* The machine's software interrupt, which a task asks for. */
void freertos_risc_v_application_interrupt_handler(uint32_t cause) {
    BaseType_t woken = pdFALSE;
    configASSERT((cause & 0xff) == 3);
    traceISR_ENTER();
    *SOFTWARE_INTERRUPT = 0;
    counts.interrupts++;
    xSemaphoreGiveFromISR(signal, &woken);
    portYIELD_FROM_ISR(woken);
}

static void producer(void *argument) {
    (void)argument;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        configASSERT(xQueueSend(messages, &i, portMAX_DELAY) == pdTRUE);
        counts.sent++;
        if (i % 2 == 1)
            vTaskDelay(1);
    }
    counts.ended++;
    vTaskDelete(NULL);
}

static void consumer(void *argument) {
    (void)argument;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint32_t message;
        configASSERT(xQueueReceive(messages, &message, portMAX_DELAY) == pdTRUE);
        configASSERT(message == i);
        counts.received++;
    }
    counts.ended++;
    vTaskDelete(NULL);
}

static void take(void) {
    configASSERT(xSemaphoreTake(lock, portMAX_DELAY) == pdTRUE);
    counts.taken++;
}

static void give(void) {
    counts.given++;
    configASSERT(xSemaphoreGive(lock) == pdTRUE);
}

/* Is woken by the interrupt while the other task holds the lock, to which it lends its priority. */
static void urgent(void *argument) {
    (void)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        configASSERT(xSemaphoreTake(signal, portMAX_DELAY) == pdTRUE);
        counts.signalled++;
        take();
        give();
    }
    /* Nobody signals any more. */
    configASSERT(xSemaphoreTake(signal, 2) == pdFALSE);
    counts.waited++;
    counts.ended++;
    vTaskDelete(NULL);
}

static void holder(void *argument) {
    (void)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        take();
        *SOFTWARE_INTERRUPT = 1;
        while (counts.signalled == i)
            ;
        give();
    }
    counts.ended++;
    vTaskDelete(NULL);
}

static void create(TaskFunction_t code, const char *name, UBaseType_t priority, TaskHandle_t *task) {
    counts.created++;
    configASSERT(xTaskCreate(code, name, 256, NULL, priority, task) == pdPASS);
}

static void first(void *argument) {
    TaskHandle_t task;
    (void)argument;
    create(consumer, "consumer", 3, NULL);
    create(producer, "producer", 2, &task);
    create(urgent, "urgent", 4, NULL);
    create(holder, "holder", 1, NULL);
    vTaskDelay(5);
    vTaskSuspend(task);
    vTaskDelay(2);
    vTaskResume(task);
    for (TickType_t woken = xTaskGetTickCount(); counts.ended < 4;)
        xTaskDelayUntil(&woken, 10);
    kymo_stop(KYMO_TRACE);
    print_count(counts.ticks, "ticks");
    print_count(counts.interrupts, "interrupts");
    print_count(counts.sent, "sent");
    print_count(counts.received, "received");
    print_count(counts.taken, "taken");
    print_count(counts.given, "given");
    print_count(counts.signalled, "signalled");
    print_count(counts.waited, "waited");
    print_count(counts.created, "created");
    print_count(counts.ended, "ended");
    *TEST_DEVICE = 0x5555;
    for (;;)
        ;
}

int main(void) {
    static const struct kymo_config config = {.seed = 1};
    int32_t channels = kymo_start(KYMO_TRACE, &config);
    configASSERT(channels > 0);
    kymo_irq_name(3, "software", KYMO_TO_NUL);
    kymo_irq_name(7, "tick", KYMO_TO_NUL);
    messages = xQueueCreate(4, sizeof(uint32_t));
    lock = xSemaphoreCreateMutex();
    signal = xSemaphoreCreateBinary();
    vQueueAddToRegistry(messages, "messages");
    vQueueAddToRegistry(lock, "lock");
    vQueueAddToRegistry(signal, "signal");
    create(first, "first", 5, NULL);
    __asm__ volatile("csrs mie, %0" : : "r"(8)); /* the software interrupt */
    vTaskStartScheduler();
    return 1;
}
