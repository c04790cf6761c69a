/* call_once, and a static variable inside a function, which the compiler guards. */
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static std::once_flag flag;
static int settings[16];
static std::mutex lock;
static long sum;

static const std::string &name() {
    static const std::string name = std::string("a name that is too long to be kept in place: ") + std::to_string(settings[3]);
    return name;
}

static void work() {
    std::call_once(flag, [] { for (int i = 0; i < 16; i++) settings[i] = i; });
    long own = 0;
    for (int i = 0; i < 100; i++) own += settings[i % 16] + (long)name().size();
    std::lock_guard<std::mutex> held(lock);
    sum += own;
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back(work);
    for (auto &thread : threads) thread.join();
    return sum == 0;
}
