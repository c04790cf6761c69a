/* races: buffer
   Two threads copy into the same buffer: neither access is in code of the program. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static char buffer[256];
static char from[2][256];

static void *one(void *arg) {
    size_t volatile length = 200;
    pthread_barrier_wait(&start);
    memcpy(buffer, from[(intptr_t)arg], length);
    return 0;
}

int main(void) {
    pthread_t a, b;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, (void *)0);
    pthread_create(&b, 0, one, (void *)1);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
