/* Memory is given back to the kernel and mapped again, at the same place, by another thread: the kernel alone knows the order. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#define LENGTH (1 << 16)

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 30; i++) {
        char *memory = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) abort();
        for (int j = 0; j < LENGTH; j += 512) memory[j] = (char)j;
        munmap(memory, LENGTH);
    }
    return 0;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, work, (void *)0);
    pthread_create(&b, 0, work, (void *)1);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
