// Exceptions in all the ways they are thrown and caught.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>
#include <sys/wait.h>
#include <unistd.h>
#include "expect.h"

static volatile int zero;
static int destroyed;
struct Guard {
    std::string name;
    explicit Guard(const char *n) : name(n) {}
    ~Guard() { destroyed += (int)name.size() > 0; }
};
struct Base { virtual ~Base() {} virtual int id() const { return 1; } };
struct Derived : Base { int id() const override { return 2; } };
struct Other { int value; };

extern "C" {
KEEP void caught_int(int) { zero = 0; }
KEEP void caught_base(const Base &b) { zero = b.id() * 0; }
KEEP void caught_std(const std::exception &) { zero = 0; }
KEEP void caught_any() { zero = 0; }
KEEP void after_throw() { zero = 0; }

KEEP void thrower(int kind) {
    Guard guard("thrower");
    switch (kind) {
    case 0: return;
    case 1: throw 42;
    case 2: throw Derived();
    case 3: throw std::runtime_error("three");
    case 4: throw Other{4};
    case 5: std::vector<int>().at(3); break;
    case 6: std::string("abc").substr(9); break;
    default: break;
    }
    after_throw();
}
KEEP void level(int depth, int kind) {
    Guard guard("a level with quite a long name so that it allocates");
    if (depth == 0) thrower(kind); else level(depth - 1, kind);
    after_throw();
}
KEEP void middle(int kind) {
    try {
        level(3, kind);
    } catch (int i) {
        caught_int(i);
        throw;
    } catch (const std::out_of_range &e) {
        caught_std(e);
        throw std::string("translated");
    }
}
KEEP void outer(int kind) {
    try {
        Guard guard("outer");
        middle(kind);
    } catch (const Base &b) {
        caught_base(b);
    } catch (const std::exception &e) {
        caught_std(e);
    } catch (int i) {
        caught_int(i);
    } catch (...) {
        caught_any();
    }
}
KEEP void nested(int n) {
    try {
        try {
            thrower(1);
        } catch (int) {
            Guard guard("in a handler");
            try {
                thrower(n % 7);
            } catch (const Other &) {
                caught_any();
                throw;
            }
            throw std::logic_error("from a handler");
        }
    } catch (const std::logic_error &e) {
        caught_std(e);
    } catch (...) {
        caught_any();
    }
}
__attribute__((cold, noinline)) void unlikely(int n) {
    Guard guard("cold");
    if (n & 1) throw Other{n};
    after_throw();
}
KEEP int cold_part(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        try {
            if (__builtin_expect(i % 5 == 4, 0)) unlikely(i);
            sum += i;
        } catch (const Other &o) {
            sum += o.value * 3;
        }
    }
    return sum;
}
KEEP int by_pointer() {
    try {
        throw new Other{5};
    } catch (Other *o) {
        int v = o->value;
        delete o;
        return v;
    }
}
#if __cplusplus < 201703L
KEEP void only_int(int kind) throw(int) { thrower(kind); }
static void unexpected_handler() { throw 7; }
KEEP int specified() {
    std::set_unexpected(unexpected_handler);
    int sum = 0;
    for (int kind = 0; kind < 5; kind++)
        try { only_int(kind); } catch (int i) { sum += i; }
    return sum;
}
#endif
KEEP void never_throws(int kind) noexcept { thrower(kind); }
} // extern "C"

int main() {
    for (int i = 0; i < 70; i++) outer(i % 7);
    for (int i = 0; i < 35; i++) nested(i);
    int sum = cold_part(60) + by_pointer();
#if __cplusplus < 201703L
    sum += specified();
#endif
    std::exception_ptr kept;
    try { thrower(3); } catch (...) { kept = std::current_exception(); }
    try { std::rethrow_exception(kept); } catch (const std::exception &e) { sum += (int)strlen(e.what()); }
    printf("%d %d\n", sum, destroyed);
    fflush(stdout);
    if (pid_t pid = fork()) {
        int status;
        waitpid(pid, &status, 0);
        printf("%d\n", status);
    } else {
        std::set_terminate([] { printf("terminate\n"); fflush(stdout); _exit(9); });
        never_throws(0);
        never_throws(2);
        _exit(1);
    }
    // Of ten rounds of seven kinds: 0 returns, 1 int (caught in the middle, again outside), 2 base,
    // 3 runtime_error, 4 other, 5 and 6 out_of_range (in the middle), then a string.
    EXPECT_ENTRIES(outer, 70);
    EXPECT_ENTRIES(level, 280);
    EXPECT_ENTRIES(caught_base, 10);
    EXPECT_ENTRIES(caught_int, 20);
    // nested: 0 logic_error, 1 int, 2 derived, 3 runtime_error, 4 other twice, 5, 6 out_of_range: a logic_error
    EXPECT_ENTRIES(caught_std, 10 + 20 + 15);
    EXPECT_ENTRIES(caught_any, 10 + 20 + 5 + 20);
    EXPECT_ENTRIES(unlikely, 12);
    EXPECT_ENTRIES(never_throws, 2);
    return 3;
}
