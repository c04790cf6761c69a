// Ways out of a function other than its return.
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "expect.h"

static jmp_buf place;
static sigjmp_buf signal_place;
static volatile int rounds, sink;

KEEP void jumper(int depth, int value) {
    if (depth == 0) longjmp(place, value);
    jumper(depth - 1, value);
    sink++;
}
KEEP int around(int n) {
    volatile int sum = 0;
    for (volatile int i = 0; i < n; i++) {
        int got = setjmp(place);
        if (got == 0) jumper(i % 5, i + 1);
        else sum += got;
    }
    return sum;
}
KEEP int once(void) {
    volatile int times = 0;
    int got = setjmp(place);
    times++;
    if (got < 10) longjmp(place, got + 1);
    return times;
}
KEEP void on_signal(int signal) { (void)signal; rounds++; siglongjmp(signal_place, 1); }
KEEP int signalled(int n) {
    signal(SIGUSR1, on_signal);
    volatile int back = 0;
    for (volatile int i = 0; i < n; i++) {
        if (sigsetjmp(signal_place, 1)) { back++; continue; }
        if (i % 2) raise(SIGUSR1);
        sink++;
    }
    return back;
}
KEEP void farewell(void) { printf("farewell %d\n", sink); }
KEEP void leave(int depth, int how) {
    if (depth > 0) { leave(depth - 1, how); sink++; return; }
    fflush(stdout);
    if (how == 0) exit(5);
    if (how == 1) _exit(6);
    if (how == 2) abort();
    if (how == 3) raise(SIGKILL);
    if (how == 4) quick_exit(7);
    if (how == 5) *(volatile int *)8 = 1;
    if (how == 6) __builtin_trap();
}
int main(int argc, char **argv) {
    atexit(farewell);
    printf("%d %d\n", around(50), once());
    printf("%d %d\n", signalled(20), rounds);
    int how = argc > 1 ? atoi(argv[1]) : 0;
    EXPECT_ENTRIES(around, 1);
    EXPECT_ENTRIES(jumper, 10 * (1 + 2 + 3 + 4 + 5));
    EXPECT_ENTRIES(on_signal, 10);
    EXPECT_ENTRIES(leave, 8);
    EXPECT_ENTRIES(farewell, how == 0);
    leave(7, how);
    return 1;
}
