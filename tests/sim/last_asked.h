// What a responder remembers that keeps of each READ no more than the part that was asked for last: a later
// request for an earlier part draws no answer (Linux rxe, rxe_resp.c: duplicate requests before va_org).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "rnic/wire/headers.h"

namespace urnic::sim {

class LastAsked {
  public:
    /// A READ request came. Returns whether it is answered.
    [[nodiscard]] bool takes(const wire::PacketHeader& header, std::uint32_t mtu_bytes) {
        const Psn psn = header.psn;
        const auto read = std::find_if(reads_.begin(), reads_.end(), [&](const Read& each) {
            return each.qp_num == header.dest_qp && psn >= each.begin && psn < each.end;
        });
        if (read != reads_.end()) {
            const bool is_earlier = header.reth.va < read->va;
            read->va = std::max(read->va, header.reth.va);
            return !is_earlier;
        }
        constexpr std::size_t kMost = 64;
        if (reads_.size() == kMost) {
            reads_.pop_front();
        }
        const std::uint32_t packets =
            std::max<std::uint32_t>(1, (header.reth.dma_length + mtu_bytes - 1) / mtu_bytes);
        reads_.push_back({header.dest_qp, psn, psn + packets, header.reth.va});
        return true;
    }
    void forget(std::uint32_t qp_num) {
        std::erase_if(reads_, [qp_num](const Read& each) { return each.qp_num == qp_num; });
    }

  private:
    struct Read {
        std::uint32_t qp_num;
        Psn begin;
        Psn end;
        std::uint64_t va;
    };
    std::deque<Read> reads_;
};

}  // namespace urnic::sim
