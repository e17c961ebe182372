// Memory whose pages never come: what touches them waits, as it does for pages of a file system in user space
// that does not answer.
#pragma once

#include <cstddef>
#include <thread>

namespace urnic::e2e {

class StalledMemory {
  public:
    /// Needs the right to let the kernel wait (root, before it gives its rights up). Until stall() it is
    /// ordinary shared memory. Ends the program if it cannot be had.
    explicit StalledMemory(std::size_t length_bytes);
    StalledMemory(const StalledMemory&) = delete;
    StalledMemory& operator=(const StalledMemory&) = delete;

    /// From now on its pages do not come.
    void stall() const;
    [[nodiscard]] void* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return length_bytes_; }
    /// Waits until somebody waits for a page.
    void wait_for_victim() const;

  private:
    std::size_t length_bytes_;
    int file_ = -1;
    void* data_ = nullptr;
    int userfault_ = -1;
};

}  // namespace urnic::e2e
