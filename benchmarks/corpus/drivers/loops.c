/* The tightest loops there are: loops NAME TIMES. The barriers keep the compiler from changing their shape. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define KEEP(x) __asm__ volatile("" : "+r"(x))
#define LOOP __attribute__((noinline)) static unsigned long
static unsigned char bytes[4096]; static unsigned long words[512]; static struct list { struct list *next; } ring[512];
LOOP one(unsigned long n) { __asm__ volatile("1: loop 1b" : "+c"(n)); return n; } /* loop */
LOOP two(unsigned long n) { do KEEP(n); while (--n); return n; } /* sub, jne */
LOOP three(unsigned long n) { unsigned long s = 0; do { s += n; KEEP(s); } while (--n); return s; } /* add, sub, jne */
LOOP four(unsigned long n) { unsigned long s = 0; for (n /= 512; n; n--) for (unsigned long *p = words; p != words + 512; p++) { s += *p; KEEP(s); } return s; } /* add, add, cmp, jne */
LOOP chase(unsigned long n) { struct list *p = ring; for (n /= 512; n; n--) do { p = p->next; KEEP(p); } while (p != ring); return p == ring; } /* mov, cmp, jne */
LOOP scan(unsigned long n) { unsigned long s = 0; for (n /= 4096; n; n--) { unsigned char *p = bytes; KEEP(p); while (*p) { p++; KEEP(p); } s += p - bytes; } return s; }
LOOP branch(unsigned long n) { unsigned long a = 0, b = 0; do { if (n & 3) { a++; KEEP(a); } else { b++; KEEP(b); } } while (--n); return a ^ b; }
__attribute__((noinline)) unsigned long leaf(unsigned long x) { KEEP(x); return x; }
LOOP call(unsigned long n) { unsigned long s = 0; do s += leaf(n); while (--n); return s; }
int main(int argc, char **argv) {
  if (argc < 3) return 0;
  static const struct { const char *name; unsigned long (*run)(unsigned long); } all[] = {
    {"one", one}, {"two", two}, {"three", three}, {"four", four}, {"chase", chase}, {"scan", scan}, {"branch", branch}, {"call", call} };
  memset(bytes, 1, sizeof bytes - 1);
  for (int i = 0; i < 512; i++) ring[i].next = &ring[(i + 1) % 512];
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i].name, argv[1])) return printf("%lu\n", all[i].run(strtoul(argv[2], 0, 0))) < 0;
  return 2;
}
