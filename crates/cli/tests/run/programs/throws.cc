// Exceptions through many frames, in several threads, while signals arrive.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <thread>
#include <vector>

static volatile long ticks;

static void tick(int) { ticks = ticks + 1; }

struct Noted {
    long &count;
    ~Noted() { count++; }
};

__attribute__((noinline)) static long deep(int depth, long &unwound)
{
    Noted noted{unwound};
    if (depth == 0)
        throw std::runtime_error("end " + std::to_string(unwound % 7));
    return deep(depth - 1, unwound) + depth;
}

static void work(int number, long *result)
{
    long unwound = 0, sum = 0;
    for (int i = 0; i < 150; i++) {
        try {
            try {
                sum += deep(i % 60 + number, unwound);
            } catch (const std::exception &error) {
                sum += std::strlen(error.what());
                if (i % 3 == 0)
                    throw;
            }
        } catch (...) {
            sum += 1000;
        }
    }
    *result = sum * 7 + unwound;
}

int main()
{
    struct sigaction action;
    std::memset(&action, 0, sizeof action);
    action.sa_handler = tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    itimerval fast = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &fast, nullptr);
    for (int round = 0; round < 3; round++) {
        std::vector<std::thread> threads;
        std::vector<long> results(4);
        for (int i = 0; i < 4; i++)
            threads.emplace_back(work, i, &results[i]);
        for (auto &thread : threads)
            thread.join();
        for (long result : results)
            std::printf("%ld ", result);
        std::puts("");
    }
    std::printf("ticks %d\n", ticks > 0);
    return 0;
}
