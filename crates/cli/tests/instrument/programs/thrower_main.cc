#include <stdexcept>
#include "expect.h"
extern "C" void library_throws(int, int *);
extern "C" int library_catches(void (*)(int), int);
extern "C" KEEP void callback(int n) {
    if (n % 4 == 0) throw std::logic_error("callback");
    if (n % 4 == 1) throw n;
}
extern "C" KEEP int ask(int n, int *counter) {
    try { library_throws(n, counter); return 1; }
    catch (int) { return 2; }
    catch (const std::runtime_error &) { return 3; }
}
int main() {
    int counter = 0, sum = 0;
    for (int i = 0; i < 30; i++) sum = sum * 3 % 1000 + ask(i, &counter);
    for (int i = 0; i < 20; i++)
        try { sum += library_catches(callback, i); } catch (int n) { sum += n; }
    printf("%d %d\n", sum, counter);
    EXPECT_ENTRIES(ask, 30);
    EXPECT_ENTRIES(callback, 20);
    EXPECT_ENTRIES(library_throws, 30);
    EXPECT_ENTRIES(library_catches, 20);
}
