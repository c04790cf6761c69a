// What runs before main and after it.
#include <thread>
#include "expect.h"
static volatile int ticks;
extern "C" KEEP void tick() { ticks = ticks + 1; }
struct Both {
    Both() { for (int i = 0; i < 5; i++) tick(); }
    ~Both() { for (int i = 0; i < 7; i++) tick(); }
};
static Both both;
thread_local Both of_thread;
__attribute__((constructor(101))) static void early() { tick(); }
__attribute__((destructor(101))) static void late() { tick(); }
int main() {
    std::thread([] { volatile Both *p = &of_thread; (void)p; }).join();
    printf("%d\n", ticks);
    EXPECT_ENTRIES(tick, 1 + 5 + 5 + 7 + 7 + 1);
}
