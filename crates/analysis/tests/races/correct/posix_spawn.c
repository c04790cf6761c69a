/* posix_spawn works in its caller's memory, as vfork does: what it is told and what it finds out, an error too. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int spawn(const char *program)
{
    char *arguments[] = {strdup(program), strdup("word"), NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t child;
    int error = posix_spawnp(&child, program, &actions, &attributes, arguments, environ);
    memset(arguments[0], 0, strlen(program));
    memset(arguments[1], 0, 4);
    memset(&actions, 0, 4);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(arguments[0]);
    free(arguments[1]);
    if (error == 0)
        waitpid(child, NULL, 0);
    return error;
}

int main(void)
{
    return spawn("true") == 0 && spawn("nowhere-to-be-found") == ENOENT && spawn("/bin/true") == 0 ? 0 : 1;
}
