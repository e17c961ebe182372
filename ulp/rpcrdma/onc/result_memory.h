/// Memory for the DDP-eligible results of a call.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ulp/rpcrdma/include/urnic/rpcrdma_onc.h"
#include "ulp/rpcrdma/onc/xdr_decoder.h"

namespace urnic::rpcrdma::onc {

class ResultMemory {
  public:
    ResultMemory() = default;
    ~ResultMemory();
    ResultMemory(const ResultMemory&) = delete;
    ResultMemory& operator=(const ResultMemory&) = delete;

    /// For results of a call with `arguments`, decoded into `results` later. Results behind the first one
    /// that has no room come with the message, too: they could not be told apart. Returns false without
    /// memory.
    [[nodiscard]] bool allocate(std::span<const rpcrdma_onc_item> items, const void* arguments,
                                void* results);
    /// More room for result `index`, as the peer has asked. Returns false if it has that room, or without
    /// memory.
    [[nodiscard]] bool enlarge(std::size_t index, std::uint64_t octets);

    /// Results come with the message then.
    void withdraw() { count_ = 0; }

    [[nodiscard]] std::span<const iovec> vectors() const { return std::span(vectors_).first(count_); }
    /// Where the data of the Reply are.
    [[nodiscard]] std::array<ChunkData, RPCRDMA_MAX_ITEMS> chunks(const rpcrdma_reply& reply) const;

  private:
    std::array<iovec, RPCRDMA_MAX_ITEMS> vectors_{};
    /// Memory of ours in them; nullptr: the caller's.
    std::array<void*, RPCRDMA_MAX_ITEMS> owned_{};
    std::size_t count_ = 0;
};

}  // namespace urnic::rpcrdma::onc
