/* races: local
   A thread_local variable, whose address others get to know. */
#include <atomic>
#include <thread>

static thread_local long own;
static std::atomic<long *> lent;
static std::atomic<bool> is_over;

int main() {
    std::thread lends([] {
        lent = &own;
        for (int i = 0; i < 100; i++) own += i;
        while (!is_over) std::this_thread::yield();
    });
    while (!lent) std::this_thread::yield();
    *lent.load() += 1;
    is_over = true;
    lends.join();
}
