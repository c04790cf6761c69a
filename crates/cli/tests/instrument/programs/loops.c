// Loops of known trip counts; the test knows the numbers.
#include <string.h>
#include "expect.h"
static volatile unsigned sink;
KEEP void counted_loop(unsigned n) { for (unsigned i = 0; i < n; i++) sink += i; }
KEEP void nested_loop(unsigned n, unsigned m) {
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < m; j++) sink += i * j;
}
KEEP unsigned find_loop(const unsigned char *v, unsigned n, unsigned what) {
    for (unsigned i = 0; i < n; i++) { sink++; if (v[i] == what) return i; }
    return n;
}
KEEP unsigned do_loop(unsigned n) { unsigned r = 0; do { sink++; r++; n /= 2; } while (n); return r; }
int main(void) {
    for (unsigned i = 1; i <= 10; i++) counted_loop(i * 10);
    nested_loop(7, 11);
    unsigned char v[50];
    for (unsigned i = 0; i < 50; i++) v[i] = i;
    sink = find_loop(v, 50, 20) + find_loop(v, 50, 200) + do_loop(1024);
    printf("%u\n", sink);
    return 0;
}
