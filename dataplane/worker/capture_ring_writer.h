// The daemon's end of a ring of captured packets (abi/capture.h). Neither a lock nor a system call; what the
// reader writes is believed only as far as it makes sense.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "abi/capture.h"
#include "base/check.h"

namespace urnic::dataplane {

class CaptureRingWriter {
  public:
    CaptureRingWriter() = default;
    /// `memory`: one part, at least kMinCaptureRingBytes, of zeros; it outlives this.
    explicit CaptureRingWriter(std::span<std::byte> memory)
        : ring_(reinterpret_cast<abi::CaptureRing*>(memory.data())),
          data_(memory.data() + abi::kCaptureRingHeaderBytes),
          capacity_(std::bit_floor(memory.size() - abi::kCaptureRingHeaderBytes)) {
        URNIC_CHECK(memory.size() >= abi::kMinCaptureRingBytes);
    }

    /// Room for a record of that many bytes, a multiple of 8, side by side; nullptr: there is none. The
    /// reader sees it when publish() is called.
    [[nodiscard]] std::byte* reserve(std::uint32_t bytes) {
        const std::uint64_t offset = head_ & (capacity_ - 1);
        const std::uint64_t to_end = capacity_ - offset;
        const std::uint64_t filler = to_end < bytes ? to_end : 0;
        if (!has_room(filler + bytes)) {
            return nullptr;
        }
        if (filler != 0) {
            // What lies behind `bytes` and `rnic` may be behind the end.
            const auto length = static_cast<std::uint32_t>(filler);
            std::memcpy(data_ + offset, &length, sizeof length);
            std::memcpy(data_ + offset + sizeof length, &abi::kCaptureFiller, sizeof abi::kCaptureFiller);
        }
        std::byte* const room = data_ + ((head_ + filler) & (capacity_ - 1));
        head_ += filler + bytes;
        prefetch_behind(room);
        return room;
    }
    void publish() {
        if (has_memory()) {
            ring_->head.store(head_, std::memory_order_release);
        }
    }
    /// Returns whether it has any: otherwise nothing but publish() may be called.
    [[nodiscard]] bool has_memory() const { return ring_ != nullptr; }
    /// One more packet of that RNIC was seen.
    void count(std::uint32_t rnic, bool is_lost) {
        add(ring_->rnics[rnic].seen);
        if (is_lost) {
            add(ring_->rnics[rnic].lost);
        }
    }

  private:
    [[nodiscard]] bool has_room(std::uint64_t bytes) {
        if (head_ - tail_ + bytes <= capacity_) {
            return true;
        }
        const std::uint64_t tail = ring_->tail.load(std::memory_order_acquire);
        if (head_ - tail > capacity_) {
            return false;  // it never goes back, nor ahead of the head
        }
        tail_ = tail;
        return head_ - tail_ + bytes <= capacity_;
    }
    /// The ring is larger than the cache, and the reader has had its lines: those of some records on are
    /// fetched meanwhile. Behind the ring's end it does nothing.
    static void prefetch_behind(const std::byte* room) {
        constexpr std::size_t kAheadBytes = 1024;
        constexpr std::size_t kLineBytes = 64;
        constexpr std::size_t kRecordLines = 3;  // of a packet's headers
        for (std::size_t line = 0; line < kRecordLines; ++line) {
            __builtin_prefetch(room + kAheadBytes + line * kLineBytes, 1);
        }
    }
    static void add(std::atomic<std::uint64_t>& count) {
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }

    abi::CaptureRing* ring_ = nullptr;
    std::byte* data_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::uint64_t head_ = 0;  // published or not
    std::uint64_t tail_ = 0;  // as last believed
};

}  // namespace urnic::dataplane
