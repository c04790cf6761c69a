/* races: shared
   The child of vfork works in the memory of all threads, and only the one that began it waits. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int shared;

static void *other(void *argument)
{
    shared += 2;
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    pid_t child = vfork();
    if (child == 0) {
        shared++;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    pthread_join(thread, NULL);
    return 0;
}
