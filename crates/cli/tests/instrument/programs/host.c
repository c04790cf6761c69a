// A program that uses the library, linked or, if asked for, loaded while it runs.
#include <stdlib.h>
#include "expect.h"
#ifdef LOAD
#include <dlfcn.h>
#else
int exported(int), through_pointer(int (*)(int), int), resolved(int);
#endif
KEEP int callback(int n) { return n * 3; }
KEEP int use(int (*exported)(int), int (*through)(int (*)(int), int), int (*resolved)(int)) {
    int sum = 0;
    for (int i = 0; i < 10; i++) sum += exported(i) + through(callback, i) + resolved(i);
    return sum;
}
int main(int argc, char **argv) {
#ifdef LOAD
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argc > 1 ? argv[1] : "./library.so", RTLD_NOW);
        if (!library) { printf("%s\n", dlerror()); return 1; }
        printf("%d\n", use((int (*)(int))dlsym(library, "exported"),
            (int (*)(int (*)(int), int))dlsym(library, "through_pointer"), (int (*)(int))dlsym(library, "resolved")));
        dlclose(library);
    }
#else
    printf("%d\n", use(exported, through_pointer, resolved));
#endif
    return 0;
}
