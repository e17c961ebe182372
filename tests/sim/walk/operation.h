// One operation of a random walk and the memory it names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "abi/verbs_values.h"

namespace urnic::sim {

/// A piece of memory as the application sees it. No address: a piece that was named by a wrong key.
struct Piece {
    std::byte* data = nullptr;
    std::uint32_t length = 0;
};

struct Operation {
    static constexpr std::size_t kMaxPieces = 4;

    // What was asked for.
    std::uint64_t number = 0;  // of the send queue's operations; the wr_id
    std::uint32_t wqe_index = 0;
    WrOpcode opcode = WrOpcode::kSend;
    std::uint16_t flags = 0;
    bool signaled = false;
    std::uint8_t num_pieces = 0;
    std::array<Piece, kMaxPieces> pieces{};  // SEND, WRITE: where from; READ, atomics: where to
    std::uint32_t length = 0;
    std::uint64_t offset = 0;        // WRITE, READ: in the target's area; atomics: which word
    bool is_shared_counter = false;  // FetchAdd of 1 on the counter that all connections use
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    std::uint32_t imm = 0;
    WcStatus poison = WcStatus::kSuccess;  // the error that it has to end with
    std::uint64_t message = 0;             // SEND, WRITE with immediate: the peer's how-manieth receive
    std::uint64_t landing_begin = 0;       // memory of the landing ring that it needs

    // What became of it.
    bool committed = false;  // executed at the target: the model has it
    bool received = false;   // a receive completed for it
    bool has_expected = false;
    std::uint64_t original = 0;       // atomics: the value that has to come back
    std::vector<std::byte> expected;  // READ that was executed and has not completed: what has to come

    [[nodiscard]] std::span<const Piece> piece_list() const { return {pieces.data(), num_pieces}; }
    [[nodiscard]] bool is_write() const {
        return opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteWithImm;
    }
    [[nodiscard]] bool is_send() const {
        return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm;
    }
    [[nodiscard]] bool is_read() const { return opcode == WrOpcode::kRead; }
    [[nodiscard]] bool is_atomic() const {
        return opcode == WrOpcode::kCompareSwap || opcode == WrOpcode::kFetchAdd;
    }
    [[nodiscard]] bool takes_receive() const { return is_send() || opcode == WrOpcode::kWriteWithImm; }
    [[nodiscard]] bool has_imm() const {
        return opcode == WrOpcode::kSendWithImm || opcode == WrOpcode::kWriteWithImm;
    }
    [[nodiscard]] bool covers(std::uint64_t at) const { return at >= offset && at < offset + length; }
    [[nodiscard]] bool overlaps(std::uint64_t from, std::uint64_t count) const {
        return from < offset + length && offset < from + count;
    }
    /// The byte at `at` of the message; nullptr in a piece that cannot be read.
    [[nodiscard]] const std::byte* byte_at(std::uint64_t at) const;
};

/// Copies the pieces behind each other.
void copy_pieces(std::span<const Piece> from, std::byte* to);
/// Returns whether the first `length` bytes of the pieces are those at `bytes`.
[[nodiscard]] bool pieces_are(std::span<const Piece> pieces, const std::byte* bytes, std::size_t length);
/// Returns whether the first `length` bytes of both lists agree; each has that many.
[[nodiscard]] bool same_bytes(std::span<const Piece> a, std::span<const Piece> b, std::size_t length);

}  // namespace urnic::sim
