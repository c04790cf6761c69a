/* shared_mutex: many read, one writes; and thread_local variables with something to do when a thread ends. */
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

static std::shared_mutex lock;
static std::map<int, std::string> names;
static std::mutex sums;
static long total;

struct Count {
    long sum = 0;
    ~Count() {
        std::lock_guard<std::mutex> held(sums);
        total += sum;
    }
};
static thread_local Count count;

int main() {
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; t++)
        threads.emplace_back([] {
            for (int i = 0; i < 50; i++) {
                std::shared_lock<std::shared_mutex> held(lock);
                for (auto &[number, name] : names) count.sum += number + (long)name.size();
            }
        });
    threads.emplace_back([] {
        for (int i = 0; i < 20; i++) {
            std::unique_lock<std::shared_mutex> held(lock);
            names[i] = std::string(30, 'n');
        }
    });
    for (auto &thread : threads) thread.join();
    return total < 0;
}
