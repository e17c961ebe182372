// The reader's end of a ring of captured packets (abi/capture.h). What the daemon writes is believed only as
// far as it makes sense.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "abi/capture.h"

namespace urnic {

class CaptureRingReader {
  public:
    CaptureRingReader() = default;
    /// `part`: a ring's header and its bytes, at least kMinCaptureRingBytes; it outlives this.
    explicit CaptureRingReader(std::span<std::byte> part)
        : ring_(reinterpret_cast<abi::CaptureRing*>(part.data())),
          data_(part.data() + abi::kCaptureRingHeaderBytes),
          capacity_(std::bit_floor(part.size() - abi::kCaptureRingHeaderBytes)) {}

    struct Record {
        abi::CaptureRecord header{};
        std::span<const std::byte> bytes;  // there until release()
        std::uint64_t position = 0;        // of the header
    };
    enum class Found : std::uint8_t { kRecord, kNothing, kDamage };
    /// To be called before next(): up to where there are records.
    void look() { head_ = ring_->head.load(std::memory_order_acquire); }
    /// The next one, if it is no younger than that; it stays the next one until skip().
    [[nodiscard]] Found next(std::uint64_t until_ns, Record& record) {
        while (tail_ != head_) {
            const std::uint64_t offset = tail_ & (capacity_ - 1);
            const std::uint64_t to_end = std::min(capacity_ - offset, head_ - tail_);
            abi::CaptureRecord header{};
            // A filler may be shorter than a record.
            std::memcpy(&header, data_ + offset, std::min<std::uint64_t>(sizeof header, to_end));
            const bool is_filler = header.rnic == abi::kCaptureFiller;
            if (header.bytes == 0 || header.bytes % kAlignment != 0 || header.bytes > to_end ||
                (!is_filler &&
                 (header.bytes < sizeof header || header.captured > header.bytes - sizeof header))) {
                return Found::kDamage;
            }
            if (!is_filler) {
                record = {header, {data_ + offset + sizeof header, header.captured}, tail_};
                return header.time_ns > until_ns ? Found::kNothing : Found::kRecord;
            }
            tail_ += header.bytes;
        }
        return Found::kNothing;
    }
    void skip(const Record& record) { tail_ += record.header.bytes; }
    /// That one is the next one again, if nothing was released since it was.
    void go_back_to(const Record& record) { tail_ = record.position; }
    /// The writer gets the room of all that was skipped.
    void release() { ring_->tail.store(tail_, std::memory_order_release); }

    struct Counts {
        std::uint64_t seen = 0;
        std::uint64_t lost = 0;
    };
    /// Since the beginning.
    [[nodiscard]] Counts counts(std::uint16_t rnic) const {
        return {ring_->rnics[rnic].seen.load(std::memory_order_relaxed),
                ring_->rnics[rnic].lost.load(std::memory_order_relaxed)};
    }

  private:
    static constexpr std::uint32_t kAlignment = 8;

    abi::CaptureRing* ring_ = nullptr;
    const std::byte* data_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::uint64_t head_ = 0;  // as last looked
    std::uint64_t tail_ = 0;
};

}  // namespace urnic
