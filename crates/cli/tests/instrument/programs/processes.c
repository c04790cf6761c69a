// Processes: `processes HOW`.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "expect.h"

extern char **environ;
static volatile int sink;
KEEP void counted(void) { sink++; }
KEEP void times(int n) { for (int i = 0; i < n; i++) counted(); }
KEEP int finish(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}
int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    times(10);
    if (!strcmp(how, "fork")) {
        for (int i = 0; i < 5; i++) {
            pid_t pid = fork();
            if (pid == 0) { times(100); _exit(i); }
            printf("%d\n", finish(pid));
        }
        EXPECT_ENTRIES(counted, 10 + 5 * 100);
        EXPECT_ENTRIES(main, 1);
    } else if (!strcmp(how, "tree")) {
        // Each process forks twice more: 2^6 in the end, each goes through what follows.
        fflush(stdout);
        pid_t first = getpid();
        for (int i = 0; i < 6; i++) fork();
        times(50);
        while (wait(NULL) > 0) {}
        if (getpid() != first) _exit(0);
        EXPECT_ENTRIES(counted, 10 + 64 * 50);
    } else if (!strcmp(how, "vfork")) {
        for (int i = 0; i < 5; i++) {
            pid_t pid = vfork();
            if (pid == 0) { execl("/bin/true", "true", (char *)NULL); _exit(9); }
            printf("%d\n", finish(pid));
            times(3);
        }
        EXPECT_ENTRIES(counted, 10 + 15);
    } else if (!strcmp(how, "spawn")) {
        for (int i = 0; i < 4; i++) {
            pid_t pid;
            char *arguments[] = {argv[0], "leaf", NULL};
            if (posix_spawn(&pid, argv[0], NULL, NULL, arguments, environ)) return 8;
            printf("%d\n", finish(pid));
        }
        printf("%d\n", system("exit 3"));
        FILE *pipe = popen("echo piped", "r");
        char line[64] = "";
        fgets(line, sizeof line, pipe);
        printf("%s%d\n", line, pclose(pipe));
        EXPECT_ENTRIES(main, 5);
        EXPECT_ENTRIES(counted, 50);
    } else if (!strcmp(how, "daemon")) {
        int ends[2];
        if (pipe(ends)) return 8;
        pid_t pid = fork();
        if (pid == 0) {
            setsid();
            if (fork() != 0) _exit(0);
            for (int i = 0; i < 256; i++) if (i != ends[1]) close(i);
            chdir("/");
            times(1000);
            write(ends[1], "x", 1);
            _exit(0);
        }
        close(ends[1]);
        char byte;
        printf("%d\n", finish(pid));
        printf("%d\n", (int)read(ends[0], &byte, 1)); // the daemon is done
        EXPECT_ENTRIES(counted, 1010);
    } else if (!strcmp(how, "exec")) {
        int left = argc > 2 ? atoi(argv[2]) : 5;
        if (left > 0) {
            char number[16];
            snprintf(number, sizeof number, "%d", left - 1);
            execl(argv[0], argv[0], "exec", number, (char *)NULL);
            return 8;
        }
        EXPECT_ENTRIES(main, 6);
        EXPECT_ENTRIES(counted, 60);
    } else if (!strcmp(how, "close")) {
        int keep = fcntl(1, F_DUPFD, 900);
        for (int i = 0; i < 900; i++) close(i);
        close_range(901, ~0u, 0);
        pid_t pid = fork();
        if (pid == 0) { times(100); _exit(0); }
        int status = finish(pid);
        times(20);
        dprintf(keep, "%d\nexpect entries counted %d\n", status, 130);
    } else if (!strcmp(how, "environment")) {
        clearenv();
        times(5);
        char *none[] = {NULL};
        char *arguments[] = {argv[0], "leaf", NULL};
        fflush(stdout);
        execve(argv[0], arguments, none);
    } else if (!strcmp(how, "leaf")) {
        return 4;
    } else if (!strcmp(how, "forever")) {
        write(1, "ready\n", 6);
        for (;;) times(1000);
    } else if (!strcmp(how, "work")) {
        times(argc > 2 ? atoi(argv[2]) : 0);
    }
    return 0;
}
