/* Preloaded: every look at a clock is one microsecond after the one before, whatever the real time and speed.
   Two runs that do the same then see the same times, natively as under an emulator. */
#define _GNU_SOURCE
#include <sys/time.h>
#include <sys/times.h>
#include <sys/resource.h>
#include <string.h>
#include <time.h>
static long long now = 1000000000LL * 1000000;
static long long tick(void) { return __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED); }
time_t time(time_t *t) { time_t s = tick() / 1000000; if (t) *t = s; return s; }
clock_t clock(void) { return tick() - 1000000000LL * 1000000; }
int gettimeofday(struct timeval *restrict v, void *restrict z) { (void)z; long long n = tick(); v->tv_sec = n / 1000000; v->tv_usec = n % 1000000; return 0; }
int clock_gettime(clockid_t c, struct timespec *t) { (void)c; long long n = tick(); t->tv_sec = n / 1000000; t->tv_nsec = n % 1000000 * 1000; return 0; }
clock_t times(struct tms *b) { memset(b, 0, sizeof *b); return tick() / 10000; }
int getrusage(__rusage_who_t w, struct rusage *u) { (void)w; memset(u, 0, sizeof *u); long long n = tick(); u->ru_utime.tv_sec = n / 1000000; u->ru_utime.tv_usec = n % 1000000; return 0; }
