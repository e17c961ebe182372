// Classic BPF programs for the packet sockets of a port: what comes to the RNIC, and to which worker.
#pragma once

#include <linux/filter.h>

#include <vector>

namespace urnic::dataplane {

/// For SO_ATTACH_FILTER: frames that came in (not those that this host sends) and are UDP to port 4791 over
/// IPv4 or IPv6 in one piece, ARP, neighbour discovery, or MAC control, with up to two VLAN tags.
[[nodiscard]] std::vector<sock_filter> rdma_filter();
/// For PACKET_FANOUT_DATA: the DestQP of a RoCEv2 frame, 0 for any other; the kernel takes it modulo the
/// number of sockets, as WorkerHandoff::worker_of() does.
[[nodiscard]] std::vector<sock_filter> dest_qp_program();
/// Lets nothing through.
[[nodiscard]] std::vector<sock_filter> reject_all_filter();

}  // namespace urnic::dataplane
