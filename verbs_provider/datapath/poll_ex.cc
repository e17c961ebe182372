// Extended polling: ibv_start_poll() takes the CQ's lock and the first completion, ibv_next_poll() the
// following ones, ibv_end_poll() gives the lock back. The read functions look at a copy of the current
// completion.
#include <errno.h>
#include <time.h>

#include "verbs_provider/core/verbs.h"
#include "verbs_provider/datapath/poll_wait.h"

namespace urnic::provider {

namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

const abi::Cqe& current(const struct ibv_cq_ex* cq) { return reinterpret_cast<const Cq*>(cq)->current; }

bool advance(Cq& cq) {
    if (!take_one(cq, cq.current)) {
        return false;
    }
    cq.cq_ex.wr_id = cq.current.wr_id;
    cq.cq_ex.status = static_cast<enum ibv_wc_status>(cq.current.status);
    return true;
}

/// Where there is a completion, the CQ stays locked until end_poll().
bool begin_poll(Cq& cq) {
    cq.lock.lock();
    cq.has_wallclock = false;
    if (advance(cq)) {
        cq.poller.store(pthread_self(), std::memory_order_relaxed);
        return true;
    }
    cq.lock.unlock();
    return false;
}

int start_poll(struct ibv_cq_ex* ibv_cq, struct ibv_poll_cq_attr* attr) {
    Cq& cq = *cq_of(ibv_cq);
    const Session& session = *cq.context->session;
    if (attr != nullptr && attr->comp_mask != 0) [[unlikely]] {
        return EINVAL;
    }
    if (session.state_relaxed() == SessionState::kForkedChild) [[unlikely]] {
        return EIO;
    }
    return begin_poll(cq) || (poll_missed(cq) && begin_poll(cq)) ? 0 : ENOENT;
}

int next_poll(struct ibv_cq_ex* cq) { return advance(*cq_of(cq)) ? 0 : ENOENT; }

void end_poll(struct ibv_cq_ex* cq) {
    notify_rest(*cq_of(cq));
    cq_of(cq)->poller.store(0, std::memory_order_relaxed);
    cq_of(cq)->lock.unlock();
    give_way_after_wake(*cq_of(cq));
}

enum ibv_wc_opcode read_opcode(struct ibv_cq_ex* cq) {
    return static_cast<enum ibv_wc_opcode>(current(cq).opcode);
}
std::uint32_t read_vendor_err(struct ibv_cq_ex* cq) { return current(cq).vendor_err; }
std::uint32_t read_byte_len(struct ibv_cq_ex* cq) { return current(cq).byte_len; }
std::uint32_t read_imm_data(struct ibv_cq_ex* cq) { return current(cq).imm_or_rkey; }
std::uint32_t read_qp_num(struct ibv_cq_ex* cq) { return current(cq).qp_num; }
std::uint32_t read_src_qp(struct ibv_cq_ex* cq) { return current(cq).src_qp; }
unsigned int read_wc_flags(struct ibv_cq_ex* cq) { return current(cq).wc_flags; }
std::uint8_t read_sl(struct ibv_cq_ex* cq) { return current(cq).link.sl; }
// RoCE has no LIDs and no path bits.
std::uint32_t read_slid(struct ibv_cq_ex* cq) { return current(cq).link.slid; }
std::uint8_t read_dlid_path_bits(struct ibv_cq_ex*) { return 0; }
std::uint64_t read_completion_ts(struct ibv_cq_ex* cq) { return current(cq).timestamp_ns; }

std::uint64_t now_ns(clockid_t clock) {
    struct timespec now {};
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<std::uint64_t>(now.tv_nsec);
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC. The two cannot be read at once; of several tries the quickest
/// counts, so that a thread that loses its core between them does not shift the result.
std::uint64_t wallclock_offset_ns() {
    constexpr std::uint64_t kQuickNs = 1000;
    constexpr int kTries = 8;
    std::uint64_t offset = 0;
    std::uint64_t best_ns = ~std::uint64_t{0};
    for (int tried = 0; tried < kTries && best_ns > kQuickNs; ++tried) {
        const std::uint64_t before = now_ns(CLOCK_MONOTONIC);
        const std::uint64_t wall = now_ns(CLOCK_REALTIME);
        const std::uint64_t took_ns = now_ns(CLOCK_MONOTONIC) - before;
        if (took_ns < best_ns) {
            best_ns = took_ns;
            offset = wall - (before + took_ns / 2);
        }
    }
    return offset;
}

std::uint64_t read_wallclock_ns(struct ibv_cq_ex* ibv_cq) {
    Cq& cq = *cq_of(ibv_cq);
    // Once for each polling block: its completions keep their order and distances.
    if (!cq.has_wallclock) {
        cq.wallclock_offset_ns = wallclock_offset_ns();
        cq.has_wallclock = true;
    }
    return cq.current.timestamp_ns + cq.wallclock_offset_ns;
}

}  // namespace

void set_poll_functions(Cq& cq, std::uint64_t wc_flags) {
    struct ibv_cq_ex& ex = cq.cq_ex;
    ex.start_poll = start_poll;
    ex.next_poll = next_poll;
    ex.end_poll = end_poll;
    ex.read_opcode = read_opcode;
    ex.read_vendor_err = read_vendor_err;
    ex.read_wc_flags = read_wc_flags;
    // A field that was not asked for has no reader (ibv_create_cq_ex(3)).
    const auto wanted = [wc_flags](std::uint64_t flag) { return (wc_flags & flag) != 0; };
    ex.read_byte_len = wanted(IBV_WC_EX_WITH_BYTE_LEN) ? read_byte_len : nullptr;
    ex.read_imm_data = wanted(IBV_WC_EX_WITH_IMM) ? read_imm_data : nullptr;
    ex.read_qp_num = wanted(IBV_WC_EX_WITH_QP_NUM) ? read_qp_num : nullptr;
    ex.read_src_qp = wanted(IBV_WC_EX_WITH_SRC_QP) ? read_src_qp : nullptr;
    ex.read_slid = wanted(IBV_WC_EX_WITH_SLID) ? read_slid : nullptr;
    ex.read_sl = wanted(IBV_WC_EX_WITH_SL) ? read_sl : nullptr;
    ex.read_dlid_path_bits = wanted(IBV_WC_EX_WITH_DLID_PATH_BITS) ? read_dlid_path_bits : nullptr;
    ex.read_completion_ts = wanted(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) ? read_completion_ts : nullptr;
    ex.read_completion_wallclock_ns =
        wanted(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) ? read_wallclock_ns : nullptr;
}

}  // namespace urnic::provider
