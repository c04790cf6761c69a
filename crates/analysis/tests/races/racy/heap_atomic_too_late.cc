/* races: block
   The flag on the heap is atomic, but it is set before what it announces. */
#include <atomic>
#include <pthread.h>
#include <thread>

struct Message {
    std::atomic<bool> is_sent{false};
    long text[2] = {0, 0};
};

static volatile long sink;
static pthread_barrier_t start;

int main() {
    pthread_barrier_init(&start, nullptr, 2);
    auto *message = new Message;
    std::thread sends([=] {
        pthread_barrier_wait(&start);
        message->is_sent.store(true, std::memory_order_release);
        message->text[1] = 7;
    });
    std::thread looks([=] {
        pthread_barrier_wait(&start);
        for (int i = 0; i < 200; i++)
            if (message->is_sent.load(std::memory_order_acquire)) sink = message->text[1];
        sink = message->text[1];
    });
    sends.join();
    looks.join();
    delete message;
}
