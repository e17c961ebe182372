// Hardware counters of one device on one worker, under the names that rxe and mlx5 use in hw_counters.
#pragma once

#include <atomic>
#include <cstdint>

namespace urnic {

// X(name): every counter once; the order is the order in which they are shown.
// clang-format off
#define URNIC_COUNTERS(X)                                                                              \
    /* as rxe names them */                                                                            \
    X(sent_pkts) X(rcvd_pkts) X(duplicate_request) X(out_of_seq_request) X(rcvd_rnr_err)               \
    X(send_rnr_err) X(rcvd_seq_err) X(retry_exceeded_err) X(retry_rnr_exceeded_err)                    \
    X(completer_retry_err) X(send_err) X(link_downed) X(rdma_sends) X(rdma_recvs)                      \
    /* as mlx5 names them */                                                                           \
    X(out_of_buffer) X(out_of_sequence) X(packet_seq_err) X(implied_nak_seq_err)                       \
    X(local_ack_timeout_err) X(rnr_nak_retry_err) X(resp_local_length_error)                           \
    X(resp_remote_access_errors) X(resp_cqe_error) X(resp_cqe_flush_error) X(req_cqe_error)            \
    X(req_cqe_flush_error) X(req_remote_invalid_request) X(req_remote_access_errors)                   \
    X(req_transport_retries_exceeded) X(req_rnr_retries_exceeded) X(rx_icrc_encapsulated)              \
    X(rx_read_requests) X(rx_write_requests) X(rx_atomic_requests)                                     \
    /* as efa names it: request packets sent again, for whatever reason */                             \
    X(retrans_pkts)                                                                                    \
    /* congestion, as mlx5 names them: the receiver's side (NP) and the sender's (RP) */                \
    X(np_ecn_marked_roce_packets) X(np_cnp_sent) X(rp_cnp_handled) X(rp_cnp_ignored)                   \
    /* bytes on the wire and drops, by reason */                                                       \
    X(sent_bytes) X(rcvd_bytes) X(drop_malformed) X(drop_not_roce) X(drop_not_for_us)                  \
    X(drop_unknown_qp) X(drop_wrong_sender) X(drop_qp_state) X(drop_pkey) X(drop_qkey) X(drop_opcode)                       \
    X(drop_uc_message) X(drop_no_mbuf) X(drop_tx_full) X(drop_steering_full) X(drop_local_payload) X(drop_port_down) X(cq_overrun)    \
    X(rcvd_mads) X(drop_mad_full)                                                                      \
    X(sent_multicast_pkts) X(rcvd_multicast_pkts)                                                      \
    /* of rcvd_pkts those that were no frames */                                                       \
    X(rcvd_local_pkts)                                                                                 \
    /* of drop_port_down what was to be sent; and how long QPs had to wait for the end of a pause */    \
    X(xmit_discard_port_down) X(xmit_wait_ns)                                                          \
    /* the control thread's business: neighbours */                                                    \
    X(drop_no_neighbour) X(rcvd_neighbour_msgs) X(drop_neighbour_msgs)
// clang-format on

/// Counts up; one writer (a worker), any reader, no locked instruction.
class Counter {
  public:
    void add(std::uint64_t n) {
        value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    void operator++() { add(1); }
    [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
};

struct Counters {
#define URNIC_DECLARE(name) Counter name;
    URNIC_COUNTERS(URNIC_DECLARE)
#undef URNIC_DECLARE
};

/// Calls visit(name, value) for each counter in order.
template <typename Visitor>
void for_each_counter(const Counters& counters, Visitor&& visit) {
#define URNIC_VISIT(name) visit(#name, counters.name.value());
    URNIC_COUNTERS(URNIC_VISIT)
#undef URNIC_VISIT
}

}  // namespace urnic
