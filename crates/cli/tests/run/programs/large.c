// More code than is described unless it runs, and functions that are not understood without others that never run.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline, noclone))

__asm__(".text\n"
        ".p2align 4\n"
        ".type never, @function\n"
        "never: .set number, 1\n"
        ".rept 180000\n"
        "movabs $number * 2654435761, %rax\n"
        ".nops 90\n"
        ".set number, number + 1\n"
        ".endr\n"
        "ret\n"
        ".size never, . - never\n");

// Does not come back, which only those tell that it calls.
static APART void give_up(const char *why) {
    fprintf(stderr, "gave up: %s\n", why);
    exit(3);
}

static APART void complain(int n) {
    char text[32];
    snprintf(text, sizeof text, "%d is too much", n);
    give_up(text);
}

static APART int sum(const int *numbers, int count) {
    int total = 0;
    for (int i = 0; i < count; i++) {
        if (numbers[i] > 1000) complain(numbers[i]);
        total += numbers[i];
    }
    return total;
}

static APART int pick(int which, int x) {
    switch (which) {
    case 0: return x + 3;
    case 1: return x * 5;
    case 2: return x ^ 77;
    case 3: return x - 9;
    case 4: return x << 2;
    case 5: return -x;
    default: return sum(&x, 1);
    }
}

static APART int twice(int x) { return x * 2 + 1; }
static APART int thrice(int x) { return x * 3 - 1; }

int main(int argc, char **argv) {
    int numbers[] = {1, 2, 3, 4, argc};
    int (*volatile through)(int) = twice;
    int result = 0;
    if (argc > 1 && strcmp(argv[1], "pick") == 0) {
        for (int i = 0; i < 20; i++) result += pick(i % 8, i);
        through = thrice;
    } else {
        for (int i = 0; i < 10; i++) result += sum(numbers, 5);
    }
    printf("%d\n", through(result));
    return 0;
}
