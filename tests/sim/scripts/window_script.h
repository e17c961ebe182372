// What scripts of memory windows begin with.
#pragma once

#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {

class WindowScript : public RcScript {
  protected:
    static constexpr std::uint32_t kLength = 4096;
    static constexpr std::uint32_t kRemote = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
    static constexpr std::uint32_t kPd = 1;

    /// Connects, with a region that windows may be bound to and one window of that type.
    void with_window(WindowType type = WindowType::kType2, const ConnectOptions& options = {},
                     std::uint32_t region_access = kAccessLocalWrite | kAccessMwBind,
                     std::uint32_t window_pd = kPd, const SimHost::Options& host_options = {}) {
        connect(options, host_options);
        region_ = &host().add_region(16384, {.access = region_access});
        region_->fill(0);
        window_ = std::make_unique<MemoryWindow>(type, window_pd);
        first_key_ = host().keys().add_window(*window_, 0x5a5a5a5a);
    }
    [[nodiscard]] SimRegion& region() { return *region_; }
    [[nodiscard]] std::uint32_t first_key() const { return first_key_; }
    /// The key after `binds` binds, as ibv_inc_rkey(3) makes them.
    [[nodiscard]] std::uint32_t key(std::uint32_t binds = 1) const {
        return (first_key_ & ~0xffU) | ((first_key_ + binds) & 0xff);
    }
    /// A bind of kLength bytes from 4096 of the region.
    [[nodiscard]] SendRequest bind(std::uint64_t wr_id, std::uint32_t access = kRemote,
                                   std::uint32_t binds = 1) const {
        SendRequest request;
        request.opcode = WrOpcode::kBindMw;
        request.wr_id = wr_id;
        request.rkey = key(binds);
        request.remote_addr = region_->addr(4096);
        request.compare_add = kLength;
        request.region_key = region_->key();
        request.window_access = access;
        return request;
    }
    [[nodiscard]] static SendRequest invalidate(std::uint64_t wr_id, std::uint32_t key) {
        SendRequest request;
        request.opcode = WrOpcode::kLocalInvalidate;
        request.wr_id = wr_id;
        request.imm_or_rkey = key;
        return request;
    }
    void bound(std::uint32_t access = kRemote) {
        post(bind(1, access));
        completes(ok(1).op(WcOpcode::kBindMw));
    }
    /// WRITE of 8 bytes by the peer to `offset` of the window.
    [[nodiscard]] Packet write_to(std::uint32_t psn, std::uint32_t key, std::size_t offset = 0) {
        return write_only(psn, 8).reth(region_->addr(4096 + offset), key, 8);
    }
    [[nodiscard]] std::uint64_t region_word(std::size_t offset) {
        return *reinterpret_cast<std::uint64_t*>(region_->data() + offset);
    }

  private:
    SimRegion* region_ = nullptr;
    std::unique_ptr<MemoryWindow> window_;
    std::uint32_t first_key_ = 0;
};

}  // namespace urnic::sim
