/* A stack that threads push to by comparing and exchanging, and take off as a whole. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
    struct node *next;
    int value;
};
static struct node *_Atomic top;
static atomic_int sum;

static void *work(void *arg) {
    for (int i = 0; i < 30; i++) {
        struct node *node = malloc(sizeof *node);
        node->value = i + (int)(intptr_t)arg;
        node->next = atomic_load(&top);
        while (!atomic_compare_exchange_weak(&top, &node->next, node)) {}
        if (i % 5 == 4) {
            struct node *all = atomic_exchange(&top, 0);
            while (all) {
                struct node *next = all->next;
                atomic_fetch_add_explicit(&sum, all->value, memory_order_relaxed);
                free(all);
                all = next;
            }
        }
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
