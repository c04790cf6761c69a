/* races: slots
   Each thread has its own slot, but one of them writes one too many. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static int slots[2][4];

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    int *volatile slot = slots[0];
    for (int i = 0; i <= 4; i++) slot[i] = i;
    return 0;
}

static void *two(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    int *volatile slot = slots[1];
    for (int i = 0; i < 4; i++) slot[i] = i;
    return 0;
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
