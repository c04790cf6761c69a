/* Threads begin programs by vfork while others are at work: a child belongs to the thread that began it. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int own[3], total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void begin(volatile int *mine, const char *program)
{
    (*mine)++;
    pid_t child = vfork();
    if (child == 0) {
        (*mine)++;
        execl(program, program, (char *)NULL);
        (*mine)++;
        _exit(1);
    }
    (*mine)++;
    waitpid(child, NULL, 0);
}

static void *work(void *argument)
{
    volatile int *mine = argument;
    for (int i = 0; i < 4; i++) {
        begin(mine, i % 2 ? "/bin/true" : "/nowhere");
        pthread_mutex_lock(&lock);
        total += *mine;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *count(void *argument)
{
    volatile int *mine = argument;
    for (int i = 0; i < 200000; i++) {
        (*mine)++;
        if (i % 1000 == 0) {
            pthread_mutex_lock(&lock);
            total++;
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, i < 2 ? work : count, (void *)&own[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return own[0] == 14 && own[1] == 14 && own[2] == 200000 ? 0 : 1;
}
