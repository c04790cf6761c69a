// count N [pause|kill|segv|exit]: counts N times in counter 3, once in 599.
#include "relive.h"
#include <signal.h>
#include <string.h>

int main(int argc, char **argv) {
    GATE();
    long n = atol(argv[1]);
    for (long i = 0; i < n; i++) COUNT(3);
    COUNT(599);
    const char *how = argc > 2 ? argv[2] : "";
    if (!strcmp(how, "pause")) pause_here();
    if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(how, "segv")) raise(SIGSEGV);
    if (!strcmp(how, "exec")) execl(argv[0], argv[0], "100", NULL);
    if (!strcmp(how, "daemon") && fork() == 0) pause_here();
    if (!strcmp(how, "exit")) _exit(0);
    return 0;
}
