// A library that calls back from a thread of its own.
#include <pthread.h>
struct call { int (*function)(int); int argument, result; };
static void *run(void *argument) {
    struct call *call = argument;
    call->result = call->function(call->argument);
    return 0;
}
__attribute__((visibility("default"))) int in_thread(int (*function)(int), int argument) {
    struct call call = {function, argument, 0};
    pthread_t thread;
    if (pthread_create(&thread, 0, run, &call)) return -1;
    pthread_join(thread, 0);
    return call.result;
}
