/* races: counter
   The guard has no name: it is gone before the next statement. */
#include <mutex>
#include <pthread.h>
#include <thread>

static std::mutex lock;
static int counter;
static pthread_barrier_t start;

static void work() {
    pthread_barrier_wait(&start);
    for (int i = 0; i < 100; i++) {
        std::lock_guard<std::mutex>{lock};
        counter++;
    }
}

int main() {
    pthread_barrier_init(&start, nullptr, 2);
    std::thread one(work), two(work);
    one.join();
    two.join();
}
