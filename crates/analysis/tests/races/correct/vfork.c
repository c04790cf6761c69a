// The child of vfork works in its parent's memory, and the parent waits until it is gone.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int shared;

static void begin(char *program)
{
    shared++;
    pid_t child = vfork();
    if (child == 0) {
        shared++;
        execl(program, program, (char *)NULL);
        shared++;
        _exit(1);
    }
    shared++;
    waitpid(child, NULL, 0);
}

int main(void)
{
    begin("/bin/true");
    begin("/nowhere");
    begin("/bin/true");
    return shared == 10 ? 0 : 1;
}
