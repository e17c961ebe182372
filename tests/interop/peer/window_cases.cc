// Memory windows of type 2: bound by the passive side, used by the active one, and invalidated by either.
#include <array>

#include "tests/interop/peer/cases.h"

namespace urnic::interop {

namespace {

constexpr std::size_t kWindowOffset = 4096, kWindowLength = 8192;
constexpr std::size_t kUsed = 3001;

/// The window and the key that the active side has to use for it.
struct Window {
    Owned<ibv_mw> mw;
    std::uint32_t rkey = 0;
};

Window bind(Side& side) {
    Window window;
    if (!side.active()) {
        window.mw.reset(ibv_alloc_mw(side.pd(), IBV_MW_TYPE_2));
        check(window.mw != nullptr, "ibv_alloc_mw");
        ibv_send_wr request{};
        request.opcode = IBV_WR_BIND_MW;
        request.wr_id = 50;
        request.bind_mw.mw = window.mw.get();
        request.bind_mw.rkey = ibv_inc_rkey(window.mw->rkey);
        request.bind_mw.bind_info = {.mr = side.mr(),
                                     .addr = reinterpret_cast<std::uint64_t>(&side.memory()[kWindowOffset]),
                                     .length = kWindowLength,
                                     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
        side.post(request);
        check(side.success(50).opcode == IBV_WC_BIND_MW, "the bind completed as something else");
        window.rkey = request.bind_mw.rkey;
    }
    const std::uint32_t theirs = side.link().exchange(window.rkey);
    window.rkey = side.active() ? theirs : window.rkey;
    return window;
}

/// WRITE or READ of the window by the active side.
void use(Side& side, const Window& window, ibv_wr_opcode opcode, std::size_t local_offset) {
    ibv_sge sge = side.piece(local_offset, kUsed);
    ibv_send_wr request = side.request(opcode, sge, kWindowOffset + 5);
    request.wr_id = 60;
    request.wr.rdma.rkey = window.rkey;
    side.post(request);
}

/// WRITE through the window and READ back, both verified.
void use_and_verify(Side& side, const Window& window) {
    if (side.active()) {
        fill(side.memory().subspan(0, kUsed), 9);
        use(side, window, IBV_WR_RDMA_WRITE, 0);
        side.success(60);
        use(side, window, IBV_WR_RDMA_READ, 20000);
        side.success(60);
        verify(side.memory().subspan(20000, kUsed), 9, "read back");
    }
    side.link().meet("window used");
    if (!side.active()) {
        verify(side.memory().subspan(kWindowOffset + 5, kUsed), 9, "written through the window");
        verify_untouched(side.memory().subspan(kWindowOffset, 5), 0, "before the window's bytes");
        verify_untouched(side.memory().subspan(kWindowOffset + 5 + kUsed, 100), 0,
                         "behind the window's bytes");
    }
}

/// The key is dead: whoever uses it is refused, and the memory stays as it was.
void refused(Side& side, const Window& window) {
    if (side.active()) {
        fill(side.memory().subspan(0, kUsed), 77);
        use(side, window, IBV_WR_RDMA_WRITE, 0);
        const ibv_wc wc = side.completion();
        check(wc.status == IBV_WC_REM_ACCESS_ERR,
              std::string("an access through a dead window ended as: ") + ibv_wc_status_str(wc.status));
    }
    side.link().meet("refused");
    if (!side.active()) {
        verify(side.memory().subspan(kWindowOffset + 5, kUsed), 9, "after the invalidation");
    }
}

/// The owner invalidates its window.
void local_invalidate(Side& side) {
    side.connect(IBV_QPT_RC);
    const Window window = bind(side);
    use_and_verify(side, window);
    if (!side.active()) {
        ibv_send_wr request{};
        request.opcode = IBV_WR_LOCAL_INV;
        request.wr_id = 70;
        request.invalidate_rkey = window.rkey;
        side.post(request);
        check(side.success(70).opcode == IBV_WC_LOCAL_INV, "the invalidation completed as something else");
    }
    side.link().meet("invalidated");
    refused(side, window);
}

/// SEND with Invalidate from the one who used it.
void send_invalidate(Side& side) {
    side.connect(IBV_QPT_RC);
    const Window window = bind(side);
    if (!side.active()) {
        side.post_receive(80, side.piece(30000, 2000));
        side.post_receive(81, side.piece(40000, 2000));
    }
    use_and_verify(side, window);
    if (side.active()) {
        // More than one packet where the path MTU is 1024 or less.
        fill(side.memory().subspan(0, 1500), 3);
        ibv_sge sge = side.piece(0, 1500);
        ibv_send_wr request = side.request(IBV_WR_SEND_WITH_INV, sge, 0);
        request.invalidate_rkey = window.rkey;
        request.wr_id = 80;
        side.post(request);
        side.success(80);
    } else {
        const ibv_wc wc = side.success(80);
        // rxe hands out the kernel's flag for it (1 << 2), which verbs gives another name.
        const bool is_rxe = side.options().device.starts_with("rxe");
        check((wc.wc_flags & (is_rxe ? IBV_WC_IP_CSUM_OK : IBV_WC_WITH_INV)) != 0,
              "the receive does not tell of the invalidation");
        check(wc.invalidated_rkey == window.rkey, "the receive names another key");
        check(wc.byte_len == 1500, "the receive has another length");
        verify(side.memory().subspan(30000, 1500), 3, "sent with the invalidation");
    }
    side.link().meet("invalidated");
    refused(side, window);
}

constexpr std::array kWindowCases{
    Case{"window", "type-2 window: bind, WRITE, READ, local invalidate, refused", local_invalidate},
    Case{"send_inv", "SEND with Invalidate of a type-2 window", send_invalidate},
};

}  // namespace

std::span<const Case> window_cases() { return kWindowCases; }

}  // namespace urnic::interop
