#include <stdexcept>
#include "expect.h"
struct Held { int *counter; ~Held() { ++*counter; } };
extern "C" __attribute__((visibility("default"), noinline)) void library_throws(int n, int *counter) {
    Held held{counter};
    if (n % 3 == 1) throw n;
    if (n % 3 == 2) throw std::runtime_error("library");
}
extern "C" __attribute__((visibility("default"), noinline)) int library_catches(void (*f)(int), int n) {
    try { f(n); return 0; } catch (const std::exception &) { return 1; }
}
