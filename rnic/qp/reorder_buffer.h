// Packets that arrived before a packet with a lower PSN, which was lost or reordered. They are kept until it
// has arrived and are then processed in PSN order, as if they arrived only then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/psn.h"
#include "rnic/wire/packet_view.h"

namespace urnic {

/// The owner of received frames: keeps the bytes of some of them.
class FrameRetainer {
  public:
    virtual ~FrameRetainer() = default;
    /// Keeps `payload`, which lies in PacketView::frame, until release(); may move it, and then changes
    /// `payload`. Returns what release() wants; nullptr: no room, nothing is kept.
    [[nodiscard]] virtual void* retain(void* frame, std::span<const std::byte>& payload) = 0;
    virtual void release(void* frame) = 0;
};

struct BufferedPacket {
    wire::PacketHeader header;
    std::span<const std::byte> payload;
    void* frame = nullptr;
};

/// Packets that one QP can keep in one direction, and how far ahead of the missing one they may be.
inline constexpr std::uint32_t kReorderBufferPackets = 512;

/// Tables for those QPs of one worker that miss packets just now; all memory is taken at the start. The
/// worker's own: no other thread may use the pool or a ReorderBuffer that draws on it.
class ReorderBufferPool {
  public:
    ReorderBufferPool(FrameRetainer& frames, std::uint32_t num_tables);
    ReorderBufferPool(const ReorderBufferPool&) = delete;
    ReorderBufferPool& operator=(const ReorderBufferPool&) = delete;

    [[nodiscard]] std::uint32_t free_tables() const { return num_free_; }

  private:
    friend class ReorderBuffer;
    struct Table {
        Table() {}
        Table* next = nullptr;
        std::array<std::uint64_t, kReorderBufferPackets / 64> used{};
        // Only those marked in `used` have a value: an idle table must not cost memory.
        union {
            std::array<BufferedPacket, kReorderBufferPackets> packets;
        };
    };
    [[nodiscard]] Table* take();
    void give_back(Table* table);

    FrameRetainer& frames_;
    std::unique_ptr<Table[]> tables_;
    Table* free_ = nullptr;
    std::uint32_t num_free_ = 0;
};

/// The early packets of one QP in one direction.
class ReorderBuffer {
  public:
    /// Without a pool nothing can be kept.
    explicit ReorderBuffer(ReorderBufferPool* pool) : pool_(pool) {}
    ReorderBuffer(const ReorderBuffer&) = delete;
    ReorderBuffer& operator=(const ReorderBuffer&) = delete;
    ~ReorderBuffer() { clear(); }

    [[nodiscard]] bool is_enabled() const { return pool_ != nullptr; }
    [[nodiscard]] bool empty() const { return table_ == nullptr; }
    [[nodiscard]] bool contains(Psn psn) const;

    /// Keeps the packet, which is ahead of `expected`, the next one in order. Returns whether it is kept: not
    /// if it is there already, too far ahead, or there is no room. Then it counts as lost.
    bool insert(const wire::PacketView& packet, Psn expected);
    /// Takes out the packet with this PSN, if it is there. Once executed it goes back by release().
    [[nodiscard]] bool extract(Psn psn, BufferedPacket& packet);
    void release(const BufferedPacket& packet) { pool_->frames_.release(packet.frame); }
    /// Everything before `expected` has come in another way (a READ request stands for many PSNs).
    void drop_before(Psn expected);
    void clear();

  private:
    [[nodiscard]] static std::uint32_t slot_of(Psn psn) { return psn.value() % kReorderBufferPackets; }
    [[nodiscard]] bool is_used(std::uint32_t slot) const {
        return ((table_->used[slot / 64] >> (slot % 64)) & 1U) != 0;
    }
    void set_unused(std::uint32_t slot);

    ReorderBufferPool* pool_;
    ReorderBufferPool::Table* table_ = nullptr;
    std::uint32_t count_ = 0;
    Psn first_;  // no packet before it is here
};

}  // namespace urnic
