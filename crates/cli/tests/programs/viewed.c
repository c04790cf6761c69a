#include <stdio.h>
#include <stdlib.h>

static int square(int x) { return x * x; }

static int add(int a, int b) {
    return a + b;
}

int fib(int n) {
    if (n < 2)
        return n;
    return fib(n - 1) + fib(n - 2);
}

static int never(int x) {
    return x - 1;
}

typedef int (*op)(int, int);

int fold(op f, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (i % 3 == 0)
            sum = f(sum, square(i));
        else
            sum = f(sum, i);
    }
    return sum;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 10;
    if (n < 0)
        n = never(n);
    printf("%d %d\n", fold(add, 100 * n), fib(n));
    switch (n) {
    case 1: puts("one"); break;
    case 10: puts("ten"); break;
    default: puts("many");
    }
    return 0;
}
