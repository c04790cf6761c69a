/* An atomic flag on the heap, set with release and looked at with acquire now and then: by plain moves, and nobody waits for it. */
#include <atomic>
#include <thread>

struct Message {
    std::atomic<bool> is_sent{false};
    std::atomic<long *> more{nullptr};
    long text[2] = {0, 0};
};

int main() {
    auto *message = new Message;
    long sum = 0;
    std::thread looks([&] {
        for (int i = 0; i < 100000; i++) {
            if (message->is_sent.load(std::memory_order_acquire)) sum += message->text[0];
            if (long *more = message->more.load(std::memory_order_acquire)) {
                sum += more[1];
                break;
            }
            if (i % 100 == 0) std::this_thread::yield();
        }
    });
    std::thread sends([=] {
        message->text[0] = 3;
        message->is_sent.store(true, std::memory_order_release);
        long *more = new long[2]{1, 2};
        message->more.store(more, std::memory_order_release);
    });
    sends.join();
    looks.join();
    delete[] message->more.load();
    delete message;
    return sum < 0;
}
