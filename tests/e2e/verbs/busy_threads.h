// Threads that compute, for tests of what happens when nobody gets a processor at once.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace urnic::e2e {

/// One on each processor, for as long as the object lives.
class BusyThreads {
  public:
    BusyThreads() {
        for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
            threads_.emplace_back([this] {
                while (!stop_.load(std::memory_order_relaxed)) {
                }
            });
        }
    }
    ~BusyThreads() { stop_.store(true); }
    BusyThreads(const BusyThreads&) = delete;
    BusyThreads& operator=(const BusyThreads&) = delete;

  private:
    std::atomic<bool> stop_{false};
    std::vector<std::jthread> threads_;  // joined before stop_ goes
};

}  // namespace urnic::e2e
