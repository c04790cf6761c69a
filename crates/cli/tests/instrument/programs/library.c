// A library: exported and hidden functions, a pointer table, and (if asked for) initialisers and resolvers.
#include "expect.h"
#define API __attribute__((visibility("default"), noinline))
static volatile int sink;
int library_state;
__attribute__((visibility("hidden"))) KEEP int hidden(int n) { sink += n; return n * 2 + sink * 0; }
API int exported(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += hidden(i);
    return sum + library_state;
}
API int through_pointer(int (*function)(int), int n) { return function(n) + 1; }
#ifdef INITIALISER
__attribute__((constructor)) static void initialise(void) { library_state = hidden(50); }
__attribute__((destructor)) static void finish(void) { hidden(1); }
#else
#define NO_INITIALISER
#endif
#ifdef RESOLVER
KEEP static int plain(int n) { return n + 100; }
static int (*resolve(void))(int) { return plain; }
API int resolved(int n) __attribute__((ifunc("resolve")));
#else
API int resolved(int n) { return n + 100; }
#endif
