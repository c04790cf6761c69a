/* races: settings
   Made by call_once, but one reader does not ask. */
#include <mutex>
#include <pthread.h>
#include <thread>

static std::once_flag flag;
static int settings[4];
static volatile int asked, unasked;
static pthread_barrier_t start;

static void make() {
    for (int i = 0; i < 4; i++) settings[i] = i;
}

int main() {
    pthread_barrier_init(&start, nullptr, 2);
    std::thread one([] {
        pthread_barrier_wait(&start);
        std::call_once(flag, make);
        asked = settings[3];
    });
    std::thread two([] {
        pthread_barrier_wait(&start);
        unasked = settings[2];
    });
    one.join();
    two.join();
}
