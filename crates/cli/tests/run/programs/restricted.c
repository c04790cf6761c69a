/* Allows itself nothing but to write, to sleep and to end. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) int recurse(int n) {
    __asm__ volatile("" : "+r"(n));
    return n < 2 ? n : recurse(n - 1) + recurse(n - 2);
}

static void *sleeper(void *unused) {
    for (;;) usleep(1000);
    return unused;
}

int main(int count, char **arguments) {
    (void)arguments;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    pthread_t thread;
    if (count > 1) pthread_create(&thread, NULL, sleeper, NULL);
    printf("asked %d\n", (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    fflush(stdout);
    recurse(10);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    unsigned flags = count > 1 ? SECCOMP_FILTER_FLAG_TSYNC : 0;
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
    char text[64];
    int len = sprintf(text, "restricted %ld %d\n", result, recurse(20));
    if (write(1, text, len) != len) _exit(1);
    _exit(result == 0 ? 3 : 1);
}
