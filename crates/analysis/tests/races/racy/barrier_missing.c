/* races: grid
   Neighbours are read in the same phase in which they are written. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static int grid[2][64];

static void *phase(intptr_t me) {
    for (int round = 0; round < 3; round++) {
        pthread_barrier_wait(&start);
        int sum = 0;
        for (int i = 0; i < 64; i++) sum += *(volatile int *)&grid[1 - me][i];
        for (int i = 0; i < 64; i++) *(volatile int *)&grid[me][i] = sum + i;
    }
    return 0;
}

static void *one(void *arg) {
    (void)arg;
    return phase(0);
}

static void *two(void *arg) {
    (void)arg;
    return phase(1);
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
