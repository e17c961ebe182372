/// The pieces of an RPC message in the order of the wire: stream, items that stay inline, their padding.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "ulp/rpcrdma/engine/rpc_message.h"

namespace urnic::rpcrdma {

class MessagePieces {
  public:
    /// Items for which `is_inline(index)` are in their places, the others are left out. `padding`: 4 zero
    /// octets.
    template <class IsInline>
    MessagePieces(const RpcMessage& message, std::span<const std::byte> padding, IsInline&& is_inline) {
        std::size_t from = 0;
        for (std::size_t i = 0; i < message.items.size(); ++i) {
            const Item& item = message.items[i];
            if (!is_inline(i)) {
                continue;
            }
            add(message.stream.subspan(from, item.at - from));
            from = item.at;
            add(item.data);
            add(padding.first(xdr_padded(item.data.size()) - item.data.size()));
        }
        add(message.stream.subspan(from));
    }
    [[nodiscard]] std::span<const std::span<const std::byte>> all() const {
        return std::span(pieces_).first(count_);
    }
    [[nodiscard]] std::size_t octets() const { return octets_; }

  private:
    void add(std::span<const std::byte> piece) {
        if (!piece.empty()) {
            pieces_[count_++] = piece;
            octets_ += piece.size();
        }
    }
    std::array<std::span<const std::byte>, 3 * kMaxItems + 1> pieces_;
    std::size_t count_ = 0;
    std::size_t octets_ = 0;
};

/// Padding that is copied (not read by the RNIC).
inline constexpr std::array<std::byte, 4> kZeroOctets{};

}  // namespace urnic::rpcrdma
