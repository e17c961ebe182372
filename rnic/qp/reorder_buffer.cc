#include "rnic/qp/reorder_buffer.h"

#include "base/check.h"

namespace urnic {

ReorderBufferPool::ReorderBufferPool(FrameRetainer& frames, std::uint32_t num_tables)
    : frames_(frames), tables_(std::make_unique<Table[]>(num_tables)) {
    for (std::uint32_t i = 0; i < num_tables; ++i) {
        give_back(&tables_[i]);
    }
}

ReorderBufferPool::Table* ReorderBufferPool::take() {
    Table* const table = free_;
    if (table != nullptr) {
        free_ = table->next;
        --num_free_;
    }
    return table;
}

void ReorderBufferPool::give_back(Table* table) {
    table->next = free_;
    free_ = table;
    ++num_free_;
}

bool ReorderBuffer::contains(Psn psn) const {
    return table_ != nullptr && is_used(slot_of(psn)) && table_->packets[slot_of(psn)].header.psn == psn;
}

bool ReorderBuffer::insert(const wire::PacketView& packet, Psn expected) {
    const std::int32_t ahead = packet.header.psn.distance(expected);
    if (pool_ == nullptr || ahead <= 0 || static_cast<std::uint32_t>(ahead) >= kReorderBufferPackets) {
        return false;
    }
    drop_before(expected);
    const bool is_first = table_ == nullptr;
    if (is_first) {
        table_ = pool_->take();
        if (table_ == nullptr) {
            return false;
        }
        first_ = expected;
    }
    // Everything held lies in [expected, expected + kReorderBufferPackets), so a used slot holds this very
    // packet.
    const std::uint32_t slot = slot_of(packet.header.psn);
    BufferedPacket held{packet.header, packet.payload, nullptr};
    if (!is_used(slot)) {
        held.frame = pool_->frames_.retain(packet.frame, held.payload);
    }
    if (held.frame == nullptr) {
        if (is_first) {
            pool_->give_back(table_);
            table_ = nullptr;
        }
        return false;
    }
    table_->packets[slot] = held;
    table_->used[slot / 64] |= std::uint64_t{1} << (slot % 64);
    ++count_;
    return true;
}

void ReorderBuffer::set_unused(std::uint32_t slot) {
    table_->used[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
    if (--count_ == 0) {
        pool_->give_back(table_);
        table_ = nullptr;
    }
}

bool ReorderBuffer::extract(Psn psn, BufferedPacket& packet) {
    if (!contains(psn)) {
        return false;
    }
    packet = table_->packets[slot_of(psn)];
    set_unused(slot_of(psn));
    return true;
}

void ReorderBuffer::drop_before(Psn expected) {
    const std::int32_t passed = table_ == nullptr ? 0 : expected.distance(first_);
    if (passed <= 0) {
        return;
    }
    BufferedPacket packet;
    const Psn first = first_;
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(passed) && i < kReorderBufferPackets; ++i) {
        if (extract(first + i, packet)) {
            release(packet);
        }
    }
    first_ = expected;
}

void ReorderBuffer::clear() {
    if (table_ != nullptr) {
        drop_before(first_ + kReorderBufferPackets);
        URNIC_CHECK(table_ == nullptr);
    }
}

}  // namespace urnic
