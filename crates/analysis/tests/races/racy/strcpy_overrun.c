/* races: guarded
   Adept's example: a string that is too long for its place runs over into data that a lock guards. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[16];
    int guarded[4];
} data;
static char text[] = "a name that is longer than it should be";

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 4; i++) data.guarded[i]++;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void *two(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    char *volatile to = data.name; /* so that the compiler does not see it */
    text[30] = 0;
    strcpy(to, text);
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
