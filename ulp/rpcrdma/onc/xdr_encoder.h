/// An XDR handle of libtirpc's that encodes into registered memory and leaves DDP-eligible data where they
/// are: the message of an rpcrdma_call, or of a Reply.
#pragma once

#include <rpc/rpc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ulp/rpcrdma/include/urnic/rpcrdma_onc.h"

namespace urnic::rpcrdma::onc {

/// How an item is known: its pointer, and its length word just before it. xdr_opaque() puts the data and then
/// their padding, each by one call; empty data are not put at all.
class XdrEncoder {
  public:
    XdrEncoder();
    ~XdrEncoder();
    XdrEncoder(const XdrEncoder&) = delete;
    XdrEncoder& operator=(const XdrEncoder&) = delete;

    [[nodiscard]] XDR* xdr() { return &xdr_; }
    /// Begins again, with the memory that there is.
    void reset();
    /// From here on `object` is encoded, whose data named by `items` are left out of the stream. An item that
    /// is not left out, before one that is, becomes an empty one: results keep their numbers (an unused Write
    /// chunk).
    void leave_out(void* object, std::span<const rpcrdma_onc_item> items);

    [[nodiscard]] bool put_u32(std::uint32_t value);
    /// Replaces a word.
    void set_u32(std::size_t at, std::uint32_t value);

    /// Whether data of one address and length were encoded twice, once left out: then nobody can tell which
    /// of the two was the item, and all has to be encoded again without leave_out().
    [[nodiscard]] bool is_ambiguous() const { return is_ambiguous_; }
    [[nodiscard]] bool has_items() const { return item_count_ != 0; }
    /// The items of the message point into this object.
    [[nodiscard]] rpcrdma_message message() const;
    /// The memory, from rpcrdma_alloc(), is the caller's then.
    [[nodiscard]] void* release();

  private:
    friend struct EncoderOps;
    /// Room for `octets` more at the position; nullptr: none.
    [[nodiscard]] std::byte* reserve(std::size_t octets);
    [[nodiscard]] bool put_bytes(const char* data, std::size_t octets);
    [[nodiscard]] bool take_out(const char* data, std::size_t octets);
    [[nodiscard]] bool ends_with_length(std::size_t octets) const;

    XDR xdr_{};
    std::byte* memory_ = nullptr;
    std::size_t capacity_ = 0;
    std::size_t position_ = 0;
    std::size_t end_ = 0;
    void* object_ = nullptr;
    std::span<const rpcrdma_onc_item> watched_;
    std::array<rpcrdma_item, RPCRDMA_MAX_ITEMS> items_{};
    std::uint32_t item_count_ = 0;
    std::size_t padding_due_ = 0;
    bool is_ambiguous_ = false;
};

}  // namespace urnic::rpcrdma::onc
