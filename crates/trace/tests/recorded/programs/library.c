#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static long sum(long n) { return n ? n + sum(n - 1) : 0; }
int main(void) {
    if (!freopen("/dev/null", "w", stdout)) return 1; /* wherever it goes */
    int v[300];
    for (int i = 0; i < 300; i++) v[i] = i * 7919 % 311;
    qsort(v, 300, sizeof *v, by_value);
    char text[500];
    memset(text, 'x', 499);
    text[499] = 0;
    char *copy = strdup(text);
    int same = 1;
    __asm__ volatile("repe cmpsb\n sete %b0" : "=q"(same) : "S"(text), "D"(copy), "c"(500L) : "cc", "memory");
    __asm__ volatile("std\n rep movsb\n cld" ::"S"(text + 400), "D"(text + 410), "c"(100L) : "memory");
    double x = 0;
    for (int i = 1; i < 200; i++) x += 1.0 / i;
    printf("%d %zu %d %.9f %ld %s\n", v[17], strlen(copy), same, x, sum(50), strstr(copy, "xy") ? "y" : "n");
    free(copy);
    return 0;
}
