/* A promise and its future, and async. */
#include <future>
#include <numeric>
#include <thread>
#include <vector>

int main() {
    std::vector<int> numbers(100, 1);
    auto sum = std::async(std::launch::async, [&] { return std::accumulate(numbers.begin(), numbers.end(), 0); });
    std::promise<std::vector<int>> promise;
    auto future = promise.get_future();
    std::thread makes([&] { promise.set_value(std::vector<int>(50, 2)); });
    auto made = future.get();
    makes.join();
    int total = sum.get() + (int)made.size();
    numbers[0] = total;
    return numbers[0] != 150;
}
