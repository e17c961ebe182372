#include "rnic/qp/rc/atomic_ops.h"

#include <array>
#include <atomic>
#include <cstring>

namespace urnic {

namespace {

std::uint64_t result_of(const AtomicOperation& operation, std::uint64_t before) {
    if (operation.is_swap) {
        return before == operation.compare ? operation.swap_or_add : before;
    }
    return before + operation.swap_or_add;
}

std::uint64_t execute_direct(std::byte* target, const AtomicOperation& operation) {
    std::atomic_ref<std::uint64_t> value(*reinterpret_cast<std::uint64_t*>(target));
    if (!operation.is_swap) {
        return value.fetch_add(operation.swap_or_add);
    }
    std::uint64_t before = operation.compare;
    value.compare_exchange_strong(before, operation.swap_or_add);
    return before;
}

}  // namespace

std::optional<std::uint64_t> execute_atomic(const MemoryPiece& piece, const AtomicOperation& operation) {
    if (piece.direct != nullptr) {
        return execute_direct(piece.direct, operation);
    }
    std::array<std::byte, sizeof(std::uint64_t)> bytes;
    if (piece.space == nullptr || !piece.space->read(piece.va, bytes.data(), bytes.size())) {
        return std::nullopt;
    }
    std::uint64_t before = 0;
    std::memcpy(&before, bytes.data(), bytes.size());
    const std::uint64_t after = result_of(operation, before);
    std::memcpy(bytes.data(), &after, bytes.size());
    if (!piece.space->write(piece.va, bytes.data(), bytes.size())) {
        return std::nullopt;
    }
    return before;
}

bool write_atomically(const MemoryPiece& piece, std::span<const std::byte, 8> bytes) {
    if (piece.direct == nullptr) {
        return piece.space != nullptr && piece.space->write(piece.va, bytes.data(), bytes.size());
    }
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(piece.direct))
        .store(value, std::memory_order_seq_cst);
    return true;
}

}  // namespace urnic
