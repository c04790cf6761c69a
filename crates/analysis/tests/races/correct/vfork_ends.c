/* Children of vfork that do not execute a program: however they end, their parent goes on only then. */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int shared;

static void begin(int way)
{
    shared++;
    pid_t child = vfork();
    if (child == 0) {
        shared++;
        if (way == 0) {
            execl("/nowhere", "nowhere", (char *)NULL);
            execl("/nowhere/else", "else", (char *)NULL);
            shared += 2;
            _exit(1);
        }
        shared += 2;
        if (way == 1)
            syscall(SYS_exit, 2);
        if (way == 2)
            kill(getpid(), SIGKILL);
        *(volatile int *)8 = 1;
    }
    shared++;
    waitpid(child, NULL, 0);
}

int main(void)
{
    for (int way = 0; way < 4; way++)
        begin(way);
    return shared == 20 ? 0 : 1;
}
