/* Each thread has a shared_ptr of its own; whoever is last destroys what all have read and one has written. */
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex lock;

struct Picture {
    std::vector<int> points = std::vector<int>(64, 1);
    int last = 0;
    ~Picture() {
        for (int &point : points) point = 0;
        last = -1;
    }
};

int main() {
    auto picture = std::make_shared<Picture>();
    std::weak_ptr<Picture> seen = picture;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([mine = picture, i] {
            int sum = 0;
            for (int point : mine->points) sum += point;
            std::lock_guard<std::mutex> held(lock);
            mine->last = sum + i;
        });
    picture.reset();
    if (auto still = seen.lock()) {
        std::lock_guard<std::mutex> held(lock);
        still->last++;
    }
    for (auto &thread : threads) thread.join();
}
