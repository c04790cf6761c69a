/* races: list
   The list is changed after the lock was given back. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node { struct node *next; } *list;

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    static __thread struct node own;
    pthread_mutex_lock(&lock);
    struct node *first = list;
    pthread_mutex_unlock(&lock);
    own.next = first;
    *(struct node *volatile *)&list = &own;
    return 0;
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
