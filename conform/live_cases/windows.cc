// Memory windows of type 2.
#include <algorithm>

#include "conform/live_cases/live_script.h"

namespace urnic::conform {

namespace {

constexpr std::size_t kWindowOffset = 1024;
constexpr std::uint32_t kWindowLength = 2048;

}  // namespace

class LiveWindows : public LiveScript {
  protected:
    /// A window that is bound to a part of region().
    void bind(std::uint32_t access) {
        connect();
        region_ = &add_region(std::size_t{2} * 4096, kAllAccess | kAccessMwBind);
        const AgentWindow window = live().add_window();
        key_ = (window.rkey & ~0xffU) | ((window.rkey + 1) & 0xffU);
        live().bind(1, window, key_, *region_, kWindowOffset, kWindowLength, access);
        completes(ok(1));
    }
    [[nodiscard]] Region& region() { return *region_; }
    [[nodiscard]] std::uint32_t key() const { return key_; }
    /// A WRITE of 64 bytes to that offset of the region.
    Packet write_to(std::uint32_t psn, std::size_t offset) {
        return write_only(psn, 64, offset).reth(region().addr(offset), key_, 64);
    }
    Packet read_from(std::uint32_t psn, std::size_t offset) {
        return read_request(psn, 64, offset).reth(region().addr(offset), key_, 64);
    }
    void is_refused() {
        sends(nak(2000, 0, kAccess).any_msn());
        untouched(region());
        leave_the_rest();
    }

  private:
    Region* region_ = nullptr;
    std::uint32_t key_ = 0;
};

CONFORM_CASE_IN(LiveWindows, Write, "10.6.7.2.2",
                "a bound window's R_Key is good for what the bind allowed") {
    bind(kAccessRemoteWrite);
    peer(write_to(2000, kWindowOffset));
    sends(ack(2000, 1).any_credits());
    FrameBytes seen(64);
    region().read(kWindowOffset, seen);
    require(std::equal(seen.begin(), seen.end(), peer_data().begin() + kWindowOffset),
            "the window's memory is not what was written");
}

CONFORM_CASE_IN(LiveWindows, BeyondTheWindow, "10.6.7.2.2 (9.7.4.1.3)",
                "what lies in the region but not in the window is refused") {
    bind(kAccessRemoteWrite);
    peer(write_to(2000, kWindowOffset + kWindowLength - 32));
    is_refused();
}

CONFORM_CASE_IN(LiveWindows, WithoutTheRight, "10.6.7.2.2 (9.7.4.1.3)",
                "a READ through a window for WRITEs is refused") {
    bind(kAccessRemoteWrite);
    peer(read_from(2000, kWindowOffset));
    is_refused();
}

CONFORM_CASE_IN(LiveWindows, Invalidated, "10.6.5 (9.7.4.1.3)", "an invalidated window's R_Key is refused") {
    bind(kAccessRemoteWrite);
    SendRequest request;
    request.opcode = WrOpcode::kLocalInvalidate;
    request.wr_id = 2;
    request.imm_or_rkey = key();
    post(request);
    completes(ok(2));
    peer(write_to(2000, kWindowOffset));
    is_refused();
}

}  // namespace urnic::conform
