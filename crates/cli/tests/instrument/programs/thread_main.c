#include "expect.h"
int in_thread(int (*)(int), int);
KEEP int inner(int n) { return n * 2 + 1; }
KEEP int called_back(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += inner(i);
    return sum;
}
int main(void) {
    int sum = 0;
    for (int i = 0; i < 20; i++) sum += in_thread(called_back, i);
    printf("%d\n", sum);
    EXPECT_ENTRIES(called_back, 20);
    EXPECT_ENTRIES(inner, 190);
    return 0;
}
