/* races: current
   What a shared_ptr counts is atomic; the pointer is not: one thread copies it while another gives it a new value. */
#include <memory>
#include <pthread.h>
#include <thread>

static std::shared_ptr<int> current = std::make_shared<int>(1);
static volatile int sink;
static pthread_barrier_t start;

int main() {
    pthread_barrier_init(&start, nullptr, 2);
    std::thread one([] {
        pthread_barrier_wait(&start);
        for (int i = 0; i < 50; i++) sink = current != nullptr;
    });
    std::thread two([] {
        auto next = std::make_shared<int>(2);
        pthread_barrier_wait(&start);
        current = std::move(next);
    });
    one.join();
    two.join();
}
