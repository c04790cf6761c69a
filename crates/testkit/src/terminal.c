// Runs a program on a terminal of its own and copies what it shows to standard output.
//
// usage: terminal PROGRAM ARGUMENTS...
#include <pty.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int terminal, status;
    char bytes[4096];
    pid_t child = argc < 2 ? -1 : forkpty(&terminal, NULL, NULL, NULL);
    if (child < 0) {
        perror("terminal");
        return 125;
    }
    if (child == 0) {
        execv(argv[1], argv + 1);
        _exit(126);
    }
    for (ssize_t len; (len = read(terminal, bytes, sizeof bytes)) > 0;)
        fwrite(bytes, 1, len, stdout);
    if (waitpid(child, &status, 0) != child) return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
