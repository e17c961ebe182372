/// How much room a Call gives its Reply. XDR types have no largest size to go by, so the Replies of a
/// procedure say it: the largest recently, at first none beyond what a message takes inline. A Reply that
/// does not fit costs an error and the Call once again (draft, 7.2.4).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <rpc/rpc.h>

namespace urnic::rpcrdma::onc {

class ReplyRooms {
  public:
    [[nodiscard]] std::uint64_t room(rpcproc_t procedure) {
        const std::scoped_lock lock(mutex_);
        const auto found = rooms_.find(procedure);
        return found == rooms_.end() ? 0 : found->second;
    }
    void note(rpcproc_t procedure, std::uint64_t reply_octets) {
        // Inline in every version (RFC 8166, 3.3.2): nothing to remember.
        constexpr std::uint64_t kAlwaysInline = 512;
        const std::scoped_lock lock(mutex_);
        const auto found = rooms_.find(procedure);
        if (found == rooms_.end()) {
            // Clients decide which procedures there are, servers do not: it stays small.
            if (reply_octets > kAlwaysInline) {
                rooms_.emplace(procedure, std::bit_ceil(reply_octets));
            }
            return;
        }
        const std::uint64_t now = reply_octets > kAlwaysInline ? std::bit_ceil(reply_octets) : 0;
        // Room costs memory for each call: an eighth less with each Reply that does not need it.
        found->second = std::max(now, found->second - found->second / 8);
    }

  private:
    std::mutex mutex_;
    std::unordered_map<rpcproc_t, std::uint64_t> rooms_;
};

}  // namespace urnic::rpcrdma::onc
