/* Known work in parallel: threads THREADS STEPS. Each thread calls step() STEPS times. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static long steps;
__attribute__((noinline)) unsigned long step(unsigned long x) {
  for (int i = 0; i < 6; i++)
    if (x & 1) x = x * 3 + 1; else x = x / 2 + 0x9e3779b9;
  return x;
}
static void *work(void *start) {
  unsigned long x = (unsigned long)start;
  for (long i = 0; i < steps; i++) x = step(x + i);
  return (void *)x;
}
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1; pthread_t t[64]; unsigned long sum = 0;
  steps = argc > 2 ? atol(argv[2]) : 1000; if (n < 1 || n > 64) return 2;
  for (int i = 0; i < n; i++) if (pthread_create(&t[i], 0, work, (void *)(unsigned long)(i + 1))) return 3;
  for (int i = 0; i < n; i++) { void *x; pthread_join(t[i], &x); sum += (unsigned long)x; }
  printf("%lu\n", sum); return 0;
}
