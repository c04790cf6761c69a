/* races: table
   Made when it is first needed, by whoever needs it: nobody asks whether somebody else does. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static int *volatile table;
static int storage[8];

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    if (!table) {
        for (int i = 0; i < 8; i++) storage[i] = i;
        table = storage;
    }
    return (void *)(intptr_t)table[3];
}

int main(void) {
    pthread_t a, b;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, one, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
