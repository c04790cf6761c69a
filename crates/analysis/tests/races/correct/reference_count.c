/* A block is given back by whoever lets it go last. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct object {
    atomic_int holders;
    int payload[8];
};

static void *work(void *arg) {
    struct object *object = arg;
    int sum = 0;
    for (int i = 0; i < 8; i++) sum += object->payload[i];
    if (atomic_fetch_sub_explicit(&object->holders, 1, memory_order_acq_rel) == 1) {
        memset(object->payload, 0, sizeof object->payload);
        free(object);
    }
    return (void *)(intptr_t)sum;
}

int main(void) {
    pthread_t threads[4];
    for (int round = 0; round < 5; round++) {
        struct object *object = malloc(sizeof *object);
        for (int i = 0; i < 8; i++) object->payload[i] = round + i;
        atomic_init(&object->holders, 4);
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, object);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    }
    return 0;
}
