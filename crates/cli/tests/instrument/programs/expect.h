// What a run is to count: the test compares each line with the profile.
#include <stdio.h>
#ifdef __clang__
#define KEEP __attribute__((noinline, used))
#else
#define KEEP __attribute__((noipa, used))
#endif
#define EXPECT_ENTRIES(function, n) printf("expect entries %s %lu\n", #function, (unsigned long)(n))
#define EXPECT_CALLS(caller, callee, n) printf("expect calls %s %s %lu\n", #caller, #callee, (unsigned long)(n))
