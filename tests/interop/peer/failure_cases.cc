// What one side refuses or is not ready for, and how the other hears of it.
#include <unistd.h>

#include <array>

#include "tests/interop/peer/cases.h"

namespace urnic::interop {

namespace {

constexpr std::size_t kLength = 3000;

/// The receive comes when the message has been refused for a while.
void receiver_late(Side& side) {
    side.connect(IBV_QPT_RC, {.rnr_retry = 7, .min_rnr_timer = 20});  // 10.24 ms
    for (std::uint32_t i = 0; i < 3; ++i) {
        const std::size_t offset = 10000 * i;
        if (side.active()) {
            fill(side.memory().subspan(offset, kLength), i);
            ibv_sge sge = side.piece(offset, kLength);
            ibv_send_wr request = side.request(IBV_WR_SEND, sge, 0);
            request.wr_id = i;
            side.post(request);
        }
        side.link().meet("sent");
        if (!side.active()) {
            // To be late is the test: some RNR NAKs go out meanwhile.
            ::usleep(50000);
            side.post_receive(i, side.piece(offset, kLength));
        }
        side.success(i);
        if (!side.active()) {
            verify(side.memory().subspan(offset, kLength), i, "message");
        }
        side.link().meet("received");
    }
}

void rnr_exhausted(Side& side) {
    side.connect(IBV_QPT_RC, {.rnr_retry = 2, .min_rnr_timer = 14});
    if (side.active()) {
        ibv_sge sge = side.piece(0, 100);
        side.post(side.request(IBV_WR_SEND, sge, 0));
        const ibv_wc wc = side.completion();
        check(wc.status == IBV_WC_RNR_RETRY_EXC_ERR,
              std::string("ended as: ") + ibv_wc_status_str(wc.status));
    }
    side.link().meet("ended");
}

/// A request that must be refused with `status`, and nothing read or written by it.
void refused(Side& side, ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t rkey,
             ibv_wc_status status) {
    if (side.active()) {
        ibv_sge sge = side.piece(0, kLength);
        ibv_send_wr request = side.request(opcode, sge, 0);
        request.wr.rdma.remote_addr = address;
        request.wr.rdma.rkey = rkey;
        side.post(request);
        const ibv_wc wc = side.completion();
        check(wc.status == status, std::string("ended as: ") + ibv_wc_status_str(wc.status));
    }
    side.link().meet("refused");
    verify_untouched(side.memory(), 0, "after the refusal");
}

void wrong_key(Side& side) {
    side.connect(IBV_QPT_RC);
    refused(side, IBV_WR_RDMA_WRITE, side.peer().memory, side.peer().rkey ^ 0x55U, IBV_WC_REM_ACCESS_ERR);
}

void beyond_region(Side& side) {
    side.connect(IBV_QPT_RC);
    refused(side, IBV_WR_RDMA_READ, side.peer().memory + kMemory - kLength + 1, side.peer().rkey,
            IBV_WC_REM_ACCESS_ERR);
}

void short_receive(Side& side) {
    side.connect(IBV_QPT_RC);
    if (!side.active()) {
        side.post_receive(1, side.piece(0, 100));
    }
    side.link().meet("posted");
    if (side.active()) {
        ibv_sge sge = side.piece(0, 101);
        side.post(side.request(IBV_WR_SEND, sge, 0));
    }
    const ibv_wc wc = side.completion();
    // rxe calls it an error of its own QP, and says so.
    const bool is_rxe = side.options().device.starts_with("rxe");
    const bool peer_is_rxe = side.link().exchange(is_rxe);
    const bool rxe_answers = side.active() ? peer_is_rxe : is_rxe;
    const ibv_wc_status asker = rxe_answers ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR;
    const ibv_wc_status answerer = rxe_answers ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR;
    check(wc.status == (side.active() ? asker : answerer),
          std::string("ended as: ") + ibv_wc_status_str(wc.status));
    side.link().meet("refused");
}

constexpr std::array kFailureCases{
    Case{"rnr", "the receive is posted late", receiver_late},
    Case{"rnr_exhausted", "the receive is never posted: RNR_RETRY_EXC_ERR", rnr_exhausted},
    Case{"wrong_key", "WRITE with a wrong key: REM_ACCESS_ERR", wrong_key},
    Case{"beyond_region", "READ beyond the region: REM_ACCESS_ERR", beyond_region},
    Case{"short_receive", "a receive that is too short: REM_INV_REQ_ERR", short_receive},
};

}  // namespace

std::span<const Case> failure_cases() { return kFailureCases; }

}  // namespace urnic::interop
