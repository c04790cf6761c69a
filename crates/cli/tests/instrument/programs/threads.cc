// Threads of known work, created in several ways.
#include <atomic>
#include <cstdlib>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include "expect.h"

extern "C" {
KEEP unsigned step(unsigned n) { return n * 1103515245 + 12345; }
KEEP unsigned other_step(unsigned n) { return n ^ n >> 3; }
static unsigned (*const steps[])(unsigned) = {step, other_step};
KEEP unsigned choose(unsigned i, unsigned n) { return steps[i & 1](n) + 1; }
KEEP void *work(void *argument) {
    unsigned n = (unsigned)(size_t)argument, sum = 1;
    for (unsigned i = 0; i < n; i++) {
        sum = choose(i, sum);
        if (i % 4 == 0) sum = step(sum);
    }
    return (void *)(size_t)(sum & 0xff);
}
KEEP void late(void) { usleep(1000); }
KEEP void *outlives(void *) {
    usleep(20000);
    for (int i = 0; i < 100; i++) late();
    EXPECT_ENTRIES(work, 8 + 4 + 40 + 1);
    EXPECT_ENTRIES(choose, 8 * 20000 + 4 * 8000 + 40 * 100);
    EXPECT_CALLS(choose, step, (8 * 20000 + 4 * 8000 + 40 * 100) / 2);
    EXPECT_CALLS(choose, other_step, (8 * 20000 + 4 * 8000 + 40 * 100) / 2);
    EXPECT_ENTRIES(step, (8 * 20000 + 4 * 8000 + 40 * 100) / 2 + (8 * 20000 + 4 * 8000 + 40 * 100) / 4);
    EXPECT_ENTRIES(late, 100);
    return nullptr;
}
}

int main() {
    pthread_t threads[8];
    unsigned long sum = 0;
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], nullptr, work, (void *)(size_t)20000);
    for (auto &thread : threads) {
        void *result;
        pthread_join(thread, &result);
        sum += (size_t)result;
    }
    std::atomic<unsigned long> total{0};
    std::vector<std::thread> more;
    for (int i = 0; i < 4; i++) more.emplace_back([&] { total += (size_t)work((void *)(size_t)8000); });
    for (auto &thread : more) thread.join();
    // One after the other: places are used again.
    for (int i = 0; i < 40; i++) std::thread([&] { total += (size_t)work((void *)(size_t)100); }).join();
    work(nullptr);
    printf("%lu %lu\n", sum, total.load());
    pthread_t last;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 65536);
    pthread_create(&last, &attributes, outlives, nullptr);
    pthread_exit(nullptr);
}
