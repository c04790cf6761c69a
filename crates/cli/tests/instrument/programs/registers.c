// Arguments and results in all kinds of registers, through pointers and from threads nobody knows yet.
#include <immintrin.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include "expect.h"
typedef double (*Reals)(double, double, double, double, double, double, double, double, long, long, long, long, long, long, long);
#define REALS(name, k) KEEP double name(double a, double b, double c, double d, double e, double f, double g, double h, \
    long i, long j, long l, long m, long n, long o, long p) \
    { return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + k * (i + 2 * j + 3 * l + 4 * m + 5 * n + 6 * o + 7 * p); }
REALS(reals0, 1) REALS(reals1, 2) REALS(reals2, 3) REALS(reals3, 5) REALS(reals4, 7)
static Reals const reals[] = {reals0, reals1, reals2, reals3, reals4};
typedef __m256d (*Wide)(__m256d, __m256d);
KEEP __m256d wide0(__m256d a, __m256d b) { return _mm256_add_pd(a, b); }
KEEP __m256d wide1(__m256d a, __m256d b) { return _mm256_sub_pd(a, b); }
KEEP __m256d wide2(__m256d a, __m256d b) { return _mm256_mul_pd(a, b); }
static Wide const wide[] = {wide0, wide1, wide2};
KEEP double various(int n, ...) {
    va_list list;
    va_start(list, n);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += i % 2 ? va_arg(list, int) : va_arg(list, double);
    va_end(list);
    return sum;
}
static double (*volatile pointer)(int, ...) = various;
struct Pair { double real; long whole; };
KEEP struct Pair pair(long n) { return (struct Pair){n / 2.0, n * 3}; }
static struct Pair (*volatile pairs)(long) = pair;
KEEP long double extended(long double x) { return x * 1.5L; }
static long double (*volatile extendeds)(long double) = extended;
KEEP double everything(unsigned i) {
    double sum = reals[i % 5](i, 1, 2, 3, 4, 5, 6, i * 2, 1, 2, 3, 4, 5, i, 7);
    double lanes[4];
    __m256d a = _mm256_set_pd(1, 2, i, 4), b = _mm256_set_pd(i, 6, 7, 8);
    __m256d kept = _mm256_set_pd(9, i, 11, 12);
    _mm256_storeu_pd(lanes, _mm256_add_pd(wide[i % 3](a, b), kept));
    for (int k = 0; k < 4; k++) sum += lanes[k] * (k + 1);
    sum += pointer(4, 1.5, 2, 2.5, (int)i);
    struct Pair p = pairs(i);
    return sum + p.real + p.whole + (double)extendeds(i);
}
KEEP void *thread(void *argument) {
    double *sum = argument;
    *sum = everything((unsigned)*sum);
    return argument;
}
int main(void) {
    double sum = 0;
    for (unsigned i = 0; i < 60; i++) sum += everything(i);
    for (unsigned i = 0; i < 10; i++) {
        pthread_t id;
        double result = i;
        pthread_create(&id, NULL, thread, &result);
        pthread_join(id, NULL);
        sum += result;
    }
    printf("%.3f\n", sum);
    EXPECT_CALLS(everything, reals0, 14);
    EXPECT_CALLS(everything, wide1, 23);
    EXPECT_CALLS(everything, various, 70);
    return 0;
}
