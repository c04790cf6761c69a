/* races: message
   The sender goes on writing to what it has sent. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sent = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t start;
static int message;
static int is_sent;

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    message = 1;
    pthread_mutex_lock(&lock);
    is_sent = 1;
    pthread_cond_signal(&sent);
    pthread_mutex_unlock(&lock);
    *(volatile int *)&message = 2;
    return 0;
}

static void *two(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    pthread_mutex_lock(&lock);
    while (!is_sent) pthread_cond_wait(&sent, &lock);
    pthread_mutex_unlock(&lock);
    return (void *)(intptr_t) * (volatile int *)&message;
}

int main(void) {
    pthread_t a, b;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, two, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
