// The in-process wire with a switch in it, by a clock that tests turn.
#pragma once

#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/emulated_network.h"
#include "dataplane/wire/in_process_switch.h"
#include "rnic/wire/dissect/eth/pause_frame.h"
#include "rnic/wire/frame.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane::rig {

inline constexpr std::uint64_t kRate = 100'000'000;  // 80 ns a byte
inline constexpr TimeNs kDelay = 5'000;
inline constexpr std::uint32_t kPayload = 1024;

inline wire::Mac mac_of_port(std::uint32_t port) { return {2, 0, 0, 0, 1, static_cast<std::uint8_t>(port)}; }
inline wire::Gid gid_of_port(std::uint32_t port) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 1, static_cast<std::uint8_t>(port + 1)};
}

/// Three RNICs' ports, the wire before them, and a clock.
struct Emulated {
    explicit Emulated(std::uint32_t workers = 1, std::uint64_t buffer = 100'000,
                      const netsim::EcnOptions& ecn = {})
        : Emulated(options(buffer, ecn), workers) {}
    explicit Emulated(const EmulatedNetwork::Options& options, std::uint32_t workers = 1)
        : handoff(state, workers),
          local_switch({{mac_of_port(0), {}}, {mac_of_port(1), {}}, {mac_of_port(2), {}}}, handoff),
          network(options, local_switch, 3, handoff) {}

    static EmulatedNetwork::Options options(std::uint64_t buffer, const netsim::EcnOptions& ecn) {
        EmulatedNetwork::Options made;
        made.topology = netsim::star(3, {.rate = kRate, .delay_ns = kDelay});
        made.pool = rig::frame_pool();
        made.switches.buffer_bytes = buffer;
        made.switches.ecn.fill(ecn);
        return made;
    }
    static rte_mbuf* make_frame(std::uint32_t from, std::uint32_t to,
                                std::uint8_t traffic_class = wire::kEct0, std::uint32_t dest_qp = 4,
                                std::uint16_t udp_src_port = 0xc000) {
        wire::PathSpec spec;
        spec.src_mac = mac_of_port(from);
        spec.dst_mac = mac_of_port(to);
        spec.src_gid = gid_of_port(from);
        spec.dst_gid = gid_of_port(to);
        spec.traffic_class = traffic_class;
        spec.udp_src_port = udp_src_port;
        wire::PacketHeader header;
        header.opcode = std::uint8_t{wire::kServiceRc} + std::uint8_t{wire::kSendOnly};
        header.dest_qp = dest_qp;
        std::array<std::byte, kPayload> payload{};
        rte_mbuf* frame = nullptr;
        EXPECT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
        const MemoryPiece piece{.direct = payload.data(), .length_bytes = kPayload};
        const std::size_t length = wire::build_frame(wire::make_path(spec), header, {&piece, 1},
                                                     {rte_pktmbuf_mtod(frame, std::byte*), kFrameRoomBytes});
        EXPECT_NE(length, 0U);
        frame->data_len = static_cast<std::uint16_t>(length);
        frame->pkt_len = static_cast<std::uint32_t>(length);
        return frame;
    }
    /// The port, told the time as a worker does at the beginning of a round.
    TimedPort& at(std::uint32_t port) {
        network.port(port).set_time(0, now);
        return network.port(port);
    }
    bool send(std::uint32_t from, std::uint32_t to, std::uint8_t traffic_class = wire::kEct0,
              std::uint32_t worker = 0) {
        rte_mbuf* frame = make_frame(from, to, traffic_class);
        if (at(from).tx_burst(worker, &frame, 1) == 1) {
            return true;
        }
        free_frames({&frame, 1});
        return false;
    }
    /// The RNIC's worker asks its switch for a pause; 0 quanta: to go on.
    bool send_pause(std::uint32_t from, std::uint8_t priorities, std::uint16_t quanta,
                    std::uint32_t worker = 0) {
        wire::Pfc pause;
        pause.class_enable = priorities;
        std::fill(std::begin(pause.pause_quanta), std::end(pause.pause_quanta), quanta);
        rte_mbuf* frame = nullptr;
        EXPECT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
        wire::build_pause_frame(mac_of_port(from), pause,
                                std::span<std::byte, wire::kPauseFrameBytes>(
                                    rte_pktmbuf_mtod(frame, std::byte*), wire::kPauseFrameBytes));
        frame->data_len = wire::kPauseFrameBytes;
        frame->pkt_len = wire::kPauseFrameBytes;
        if (at(from).tx_burst(worker, &frame, 1) == 1) {
            return true;
        }
        free_frames({&frame, 1});
        return false;
    }
    /// Lets so much time go by, a little at a time, and takes what comes at `port`.
    std::uint32_t pass(TimeNs duration, std::uint32_t port) {
        std::uint32_t count = 0;
        for (const TimeNs end = now + duration; now < end; now += std::min<TimeNs>(10'000, end - now)) {
            count += drain(port);
        }
        return count + drain(port);
    }
    rte_mbuf* receive(std::uint32_t port, std::uint32_t worker = 0) {
        rte_mbuf* frame = nullptr;
        return at(port).rx_burst(worker, &frame, 1) == 1 ? frame : nullptr;
    }
    /// Takes what there is at a port now; returns how many frames, counts those with CE.
    std::uint32_t drain(std::uint32_t port) {
        std::uint32_t count = 0;
        for (rte_mbuf* frame = receive(port); frame != nullptr; frame = receive(port)) {
            ++count;
            wire::PacketView view;
            if (wire::is_mac_control(frame_bytes(frame))) {
                told.emplace_back(port, wire::Pfc{});
                EXPECT_TRUE(wire::parse_pause_frame(frame_bytes(frame), told.back().second));
                free_frames({&frame, 1});
                --count;
                continue;
            }
            EXPECT_EQ(wire::parse_frame(frame_bytes(frame), view), wire::ParseError::kNone);
            marked += (view.traffic_class & wire::kEcnMask) == wire::kEcnCe ? 1 : 0;
            free_frames({&frame, 1});
        }
        return count;
    }
    /// Lets time go on until nothing is on its way; returns how many frames came out at `port`.
    std::uint32_t finish(std::uint32_t port) {
        std::uint32_t count = drain(port);
        while (network.port(port).next_event(0) != kNever) {
            now = std::max(now, network.port(port).next_event(0));
            count += drain(port);
        }
        return count;
    }

    TimeNs now = 1'000'000;
    abi::DaemonState state{};
    WorkerHandoff handoff;
    InProcessSwitch local_switch;
    EmulatedNetwork network;
    std::uint32_t marked = 0;
    std::vector<std::pair<std::uint32_t, wire::Pfc>> told;  // pause frames that came: at which port, and what
};

/// No frame may leak.
class EmulatedNetworkTest : public testing::Test {
  public:
    EmulatedNetworkTest() : before_(rte_mempool_avail_count(rig::frame_pool())) {}
    ~EmulatedNetworkTest() override {
        EXPECT_EQ(rte_mempool_avail_count(rig::frame_pool()), before_) << "frames leaked";
    }

  private:
    unsigned before_ = 0;
};

}  // namespace urnic::dataplane::rig
