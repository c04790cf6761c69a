/* A queue with a lock and a condition; strings go from thread to thread. */
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

static std::mutex lock;
static std::condition_variable changed;
static std::deque<std::string> queue;
static bool is_over;

int main() {
    size_t length = 0;
    std::thread reads([&] {
        for (;;) {
            std::unique_lock<std::mutex> held(lock);
            changed.wait(held, [] { return is_over || !queue.empty(); });
            if (queue.empty()) return;
            std::string text = std::move(queue.front());
            queue.pop_front();
            held.unlock();
            length += text.size();
        }
    });
    for (int i = 0; i < 100; i++) {
        std::string text(20 + i, 'x');
        {
            std::lock_guard<std::mutex> held(lock);
            queue.push_back(std::move(text));
        }
        changed.notify_one();
    }
    {
        std::lock_guard<std::mutex> held(lock);
        is_over = true;
    }
    changed.notify_all();
    reads.join();
    return length == 0;
}
