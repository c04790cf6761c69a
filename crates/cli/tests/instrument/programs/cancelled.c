// Threads that are cancelled, end early, or belong to a timer.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "expect.h"
static volatile int cleaned, ticks, fired;
static pthread_key_t key;
static pthread_barrier_t ready;
KEEP void cleanup(void *p) { (void)p; cleaned++; }
KEEP void destroy(void *p) { (void)p; cleaned++; }
KEEP void tick(void) { ticks++; }
KEEP void *waits(void *p) {
    pthread_cleanup_push(cleanup, p);
    pthread_barrier_wait(&ready);
    for (;;) { tick(); pause(); }
    pthread_cleanup_pop(1);
    return NULL;
}
KEEP void *spins(void *p) {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (;;) tick();
    return p;
}
KEEP void *leaves(void *p) {
    pthread_setspecific(key, p);
    pthread_exit(NULL);
}
KEEP void on_timer(union sigval value) { *(volatile int *)value.sival_ptr = 1; }
int main(void) {
    pthread_t thread;
    pthread_key_create(&key, destroy);
    pthread_barrier_init(&ready, NULL, 2);
    for (int i = 0; i < 5; i++) {
        pthread_create(&thread, NULL, waits, NULL);
        pthread_barrier_wait(&ready);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    pthread_create(&thread, NULL, spins, NULL);
    usleep(3000);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, leaves, &key);
        pthread_join(thread, NULL);
    }
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
    event.sigev_value.sival_ptr = (void *)&fired;
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec soon = {{0, 0}, {0, 1000000}};
    timer_settime(timer, 0, &soon, NULL);
    while (!fired) usleep(1000);
    printf("%d\n", cleaned);
    EXPECT_ENTRIES(cleanup, 5);
    EXPECT_ENTRIES(waits, 5);
    EXPECT_ENTRIES(leaves, 3);
    EXPECT_ENTRIES(destroy, 3);
    EXPECT_ENTRIES(on_timer, 1);
    return 0;
}
