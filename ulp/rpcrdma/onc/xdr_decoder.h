/// An XDR handle of libtirpc's that decodes an RPC message whose DDP-eligible data may lie in memory of their
/// own.
#pragma once

#include <rpc/rpc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ulp/rpcrdma/include/urnic/rpcrdma_onc.h"

namespace urnic::rpcrdma::onc {

/// Data that are not in the stream.
struct ChunkData {
    const std::byte* memory = nullptr;
    /// 0: they are in the stream, or there are none.
    std::uint32_t octets = 0;
    /// The most that the memory takes which the results point to already; 0: they point to none.
    std::uint32_t room = 0;
};

class XdrDecoder {
  public:
    explicit XdrDecoder(std::span<const std::byte> stream);
    XdrDecoder(const XdrDecoder&) = delete;
    XdrDecoder& operator=(const XdrDecoder&) = delete;

    [[nodiscard]] XDR* xdr() { return &xdr_; }
    /// Another message.
    void reset(std::span<const std::byte> stream);
    /// From here on `object` is decoded: data of items[i] are those of chunks[i], if it has any.
    void put_in(void* object, std::span<const rpcrdma_onc_item> items, std::span<const ChunkData> chunks);
    /// Until end_in_place() `object` is decoded: its items of RPCRDMA_ONC_ARGUMENT_IN_PLACE will point into
    /// the stream.
    void begin_in_place(void* object, std::span<const rpcrdma_onc_item> items);
    /// What has got no data points nowhere.
    void end_in_place();
    /// Items that begin_in_place() has had point into the stream do so no more: nobody may free them. Of the
    /// last stream, which need not be there any more.
    void forget_in_place(void* object, std::span<const rpcrdma_onc_item> items) const;
    /// Returns whether `data` is inside the stream.
    [[nodiscard]] bool has_in_stream(const void* data) const;
    /// Whether all data of put_in() have found their place. If not, the Reply is not what it says.
    [[nodiscard]] bool is_complete() const;

  private:
    friend struct DecoderOps;
    [[nodiscard]] const std::byte* consume(std::size_t octets);
    [[nodiscard]] bool get_bytes(char* data, std::size_t octets);
    /// Where the pointer is whose data begin_in_place() waits for at `data`; null: nowhere.
    [[nodiscard]] char** waits_in_place(const char* data) const;

    XDR xdr_{};
    std::span<const std::byte> stream_;
    std::size_t position_ = 0;
    void* object_ = nullptr;
    std::span<const rpcrdma_onc_item> items_;
    std::array<ChunkData, RPCRDMA_MAX_ITEMS> chunks_{};
    std::size_t padding_due_ = 0;
    void* in_place_object_ = nullptr;
    std::span<const rpcrdma_onc_item> in_place_;
};

}  // namespace urnic::rpcrdma::onc
