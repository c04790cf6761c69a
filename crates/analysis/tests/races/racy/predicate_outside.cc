/* races: is_ready
   Whoever wakes the other has not taken the lock that guards what he waits for. */
#include <condition_variable>
#include <mutex>
#include <thread>

static std::mutex lock;
static std::condition_variable changed;
static bool is_ready;

int main() {
    std::thread waits([] {
        std::unique_lock<std::mutex> held(lock);
        while (!is_ready) changed.wait_for(held, std::chrono::milliseconds(1));
    });
    is_ready = true;
    changed.notify_one();
    waits.join();
}
