// A process, its fork, a child that shares its memory, and the program that becomes: each calls a function of its own.
#include "expect.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int total;
KEEP void in_parent(void) { total++; }
KEEP void in_fork(void) { total++; }
KEEP void in_vfork(void) { total++; }
KEEP void in_program(void) { total++; }

static void say(const char *what) {
    char text[32];
    int len = snprintf(text, sizeof text, "%s %d\n", what, total);
    if (write(1, text, len) != len) _exit(1);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        for (int i = 0; i < 4; i++) in_program();
        say("program");
        return 0;
    }
    if (fork() == 0) {
        for (int i = 0; i < 2; i++) in_fork();
        say("fork");
        _exit(0);
    }
    int status;
    wait(&status);
    in_parent();
    total = 0;
    if (vfork() == 0) {
        for (int i = 0; i < 3; i++) in_vfork();
        say("vfork");
        execl(argv[0], argv[0], "program", (char *)0);
        _exit(1);
    }
    wait(&status);
    return 0;
}
