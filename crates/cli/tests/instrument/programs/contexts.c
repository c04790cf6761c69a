// Coroutines: several stacks in one thread.
#include <stdlib.h>
#include <ucontext.h>
#include "expect.h"
static ucontext_t scheduler, tasks[3];
static int left;
static volatile int sum;
KEEP void pause_task(int i) { swapcontext(&tasks[i], &scheduler); }
KEEP void task(int i) {
    for (int k = 0; k < 10 + i; k++) {
        sum += k;
        pause_task(i);
    }
    left--;
    swapcontext(&tasks[i], &scheduler);
}
int main(void) {
    for (int i = 0; i < 3; i++, left++) {
        getcontext(&tasks[i]);
        tasks[i].uc_stack.ss_sp = malloc(65536);
        tasks[i].uc_stack.ss_size = 65536;
        tasks[i].uc_link = &scheduler;
        makecontext(&tasks[i], (void (*)(void))task, 1, i);
    }
    int switches = 0;
    for (int round = 0; round < 13; round++)
        for (int i = 0; i < 3; i++)
            if (round < 11 + i) switches++, swapcontext(&scheduler, &tasks[i]);
    printf("%d %d %d\n", sum, switches, left);
    EXPECT_ENTRIES(pause_task, 33);
    EXPECT_ENTRIES(task, 3);
    return 0;
}
