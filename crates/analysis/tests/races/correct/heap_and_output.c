/* The heap and standard output, used by all threads at the same time: they have locks of their own. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *work(void *arg) {
    char *kept[8] = {0};
    for (int i = 0; i < 200; i++) {
        char **slot = &kept[(i * 7 + (intptr_t)arg) % 8];
        free(*slot);
        size_t length = 16 + (size_t)(i * 37 % 2000);
        *slot = malloc(length);
        memset(*slot, i, length);
        if (i % 50 == 0) printf("thread %d: %d\n", (int)(intptr_t)arg, i);
    }
    for (int i = 0; i < 8; i++) free(kept[i]);
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
