/* races: counter
   Linked statically: the C library is a part of the program. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int counter;
static pthread_barrier_t start;

static void *work(void *arg) {
    char *text = malloc(100);
    pthread_barrier_wait(&start);
    for (int i = 0; i < 100; i++) {
        snprintf(text, 100, "%d %s", i, (char *)arg);
        counter += strlen(text) > 0;
    }
    free(text);
    return 0;
}

int main(void) {
    pthread_t a, b;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, work, "a");
    pthread_create(&b, 0, work, "b");
    pthread_join(a, 0);
    pthread_join(b, 0);
    printf("%d\n", counter);
    return 0;
}
