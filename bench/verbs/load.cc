#include "bench/verbs/load.h"

#include <array>
#include <chrono>

namespace urnic::bench {

void WriteLoad::post(std::uint32_t qp, std::uint32_t bytes) const {
    const std::uint64_t place = std::uint64_t{qp} * own_place_bytes_;
    ibv_sge piece{reinterpret_cast<std::uint64_t>(side_.buffer()) + place, bytes, side_.mr().lkey};
    std::array<ibv_send_wr, kBatch> requests{};
    for (std::uint32_t i = 0; i < kBatch; ++i) {
        ibv_send_wr& request = requests[i];
        request.wr_id = qp;
        request.sg_list = &piece;
        request.num_sge = 1;
        request.opcode = IBV_WR_RDMA_WRITE;
        request.wr.rdma.remote_addr = peer_.buffer + place;
        request.wr.rdma.rkey = peer_.rkey;
        request.next = i + 1 < kBatch ? &requests[i + 1] : nullptr;
    }
    requests[kBatch - 1].send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(side_.qp(qp), requests.data(), &bad); error != 0) {
        errno = error;
        give_up("ibv_post_send");
    }
}

std::uint32_t WriteLoad::turn(std::uint32_t bytes, bool again) {
    std::array<ibv_wc, 64> done{};
    const int count = ibv_poll_cq(side_.cq(), static_cast<int>(done.size()), done.data());
    if (count < 0) {
        give_up("ibv_poll_cq");
    }
    for (int i = 0; i < count; ++i) {
        const ibv_wc& wc = done[static_cast<std::size_t>(i)];
        if (wc.status != IBV_WC_SUCCESS) {
            errno = EIO;
            give_up(ibv_wc_status_str(wc.status));
        }
        if (again) {
            post(static_cast<std::uint32_t>(wc.wr_id), bytes);
        }
    }
    return static_cast<std::uint32_t>(count);
}

double WriteLoad::run(std::uint32_t active, std::uint32_t bytes, std::uint32_t in_flight, double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    std::uint32_t under_way = 0;
    for (std::uint32_t round = 0; round < in_flight / kBatch; ++round) {
        for (std::uint32_t qp = 0; qp < active; ++qp) {
            post(qp, bytes);
            ++under_way;
        }
    }
    const auto end = begin + std::chrono::duration<double>(seconds);
    std::uint64_t batches = 0;
    while (Clock::now() < end) {
        batches += turn(bytes, true);
    }
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    while (under_way != 0) {
        under_way -= turn(bytes, false);
    }
    return static_cast<double>(batches * kBatch) / elapsed.count();
}

}  // namespace urnic::bench
