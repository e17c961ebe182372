// Where the program has given advice on memory before it registered any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace urnic::memory {

/// Where the program has given advice that nothing but /proc/self/smaps tells of: MADV_DONTDUMP and
/// MADV_WIPEONFORK. To read that file takes the longer the more the process has mapped, so the preloaded
/// library notes from the start where it can be worth while. What is noted may have ended since, or have been
/// given elsewhere: blocks of 2 MiB share a bit. From any thread, at any time.
class AdvisedMemory {
  public:
    void note(std::uint64_t addr, std::uint64_t length_bytes) {
        for_each_block(addr, length_bytes, [this](std::uint64_t word, std::uint64_t bit) {
            noted_[word].fetch_or(bit, std::memory_order_relaxed);
            return false;
        });
    }
    [[nodiscard]] bool may_be_in(std::uint64_t start, std::uint64_t end) const {
        return for_each_block(start, end - start, [this](std::uint64_t word, std::uint64_t bit) {
            return (noted_[word].load(std::memory_order_relaxed) & bit) != 0;
        });
    }

  private:
    static constexpr std::uint64_t kBlockShift = 21, kBlocks = 4096, kWordBits = 64;

    /// Until `visit` returns true; returns whether it did.
    template <typename Visit>
    static bool for_each_block(std::uint64_t addr, std::uint64_t length_bytes, const Visit& visit) {
        const std::uint64_t first = addr >> kBlockShift;
        const std::uint64_t last = (addr + length_bytes) >> kBlockShift;
        for (std::uint64_t block = first; block <= last && block < first + kBlocks; ++block) {
            if (visit(block % kBlocks / kWordBits, 1ULL << block % kWordBits)) {
                return true;
            }
        }
        return false;
    }

    std::array<std::atomic<std::uint64_t>, kBlocks / kWordBits> noted_{};
};

/// How the provider finds the one of the preloaded library, which defines it under that C name.
inline constexpr const char* kAdvisedMemorySymbol = "urnic_advised_memory";
/// From now on registrations look there. Without one no such advice is known.
void use_advised_memory(const AdvisedMemory* advised);

}  // namespace urnic::memory
