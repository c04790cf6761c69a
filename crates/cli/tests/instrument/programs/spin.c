// Loops that only a signal ends: `spin HOW`.
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include "expect.h"
static sigjmp_buf place;
static volatile unsigned long turns;
static volatile int flag;
static const char *how;
static void on_alarm(int signal) {
    (void)signal;
    if (!strcmp(how, "jump")) siglongjmp(place, 1);
    if (!strcmp(how, "flag")) { flag = 1; return; }
    // What is counted is what the loop says of itself, and perhaps a turn that just began.
    printf("turns %lu\n", turns);
    fflush(stdout);
    if (!strcmp(how, "exit")) exit(3);
    _exit(4);
}
KEEP void endless(void) { for (;;) turns++; }
KEEP void until_flag(void) { while (!flag) turns++; }
int main(int argc, char **argv) {
    how = argc > 1 ? argv[1] : "exit";
    signal(SIGALRM, on_alarm);
    struct itimerval soon = {{0, 0}, {0, 30000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    if (!strcmp(how, "flag")) until_flag();
    else if (sigsetjmp(place, 1) == 0) endless();
    printf("turns %lu\n", turns);
    return 2;
}
