// Two connected RC QPs and a region of memory on each side: what most tests begin with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "rnic/wire/opcodes.h"
#include "tests/sim/sim_host.h"
#include "tests/sim/sim_network.h"

namespace urnic::sim {

inline constexpr std::size_t kRegionBytes = 1U << 20U;

/// The opcode of a SEND in one packet.
constexpr std::uint8_t send_only(wire::Service service) {
    return static_cast<std::uint8_t>(int{service} | wire::kSendOnly);
}

class RcPair : public ::testing::Test {
  protected:
    void connect_pair(const ConnectOptions& options = {}, const SimHost::Options& host = {}) {
        connect_pair(options, host, host);
    }
    void connect_pair(const ConnectOptions& options, const SimHost::Options& a, const SimHost::Options& b) {
        a_ = std::make_unique<SimHost>(net_, "A", 1, a);
        b_ = std::make_unique<SimHost>(net_, "B", 2, b);
        a_mem_ = &a_->add_region(kRegionBytes);
        b_mem_ = &b_->add_region(kRegionBytes);
        a_mem_->fill_pattern(1);
        b_mem_->fill_pattern(2);
        connect(*a_, *b_, options);
    }

    // Loses the packets of `from` with these numbers, from 1, in the order in which it sends them.
    void lose(const std::string& from, std::vector<int> nths) {
        net_.lose = [from, nths, count = 0](const SentPacket& packet) mutable {
            return packet.from == from && std::find(nths.begin(), nths.end(), ++count) != nths.end();
        };
    }

    // Requests of A on B's memory; the same offset on both sides.
    SendRequest send(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0) {
        return {.opcode = WrOpcode::kSend, .wr_id = wr_id, .sge = {a_mem_->sge(offset, length)}};
    }
    SendRequest rdma(WrOpcode opcode, std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0) {
        return {.opcode = opcode,
                .wr_id = wr_id,
                .sge = {a_mem_->sge(offset, length)},
                .remote_addr = b_mem_->addr(offset),
                .rkey = b_mem_->key()};
    }
    SendRequest write(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0) {
        return rdma(WrOpcode::kWrite, wr_id, length, offset);
    }
    SendRequest read(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0) {
        return rdma(WrOpcode::kRead, wr_id, length, offset);
    }
    SendRequest fetch_add(std::uint64_t wr_id, std::uint64_t add, std::size_t offset = 0) {
        SendRequest request = rdma(WrOpcode::kFetchAdd, wr_id, 8, offset);
        request.compare_add = add;
        return request;
    }
    void post_receives(int count, std::uint32_t length, std::size_t offset = 0) {
        for (int i = 0; i < count; ++i) {
            b_->post_recv(next_recv_wr_id_++, {b_mem_->sge(offset, length)});
        }
    }
    // A request of A that reaches B now, past the wire: for what has to happen inside one burst.
    void deliver_to_b(const wire::PacketHeader& header, std::span<const std::byte> payload = {}) {
        wire::PacketView view;
        view.header = header;
        view.header.dest_qp = 2;
        view.payload = payload;
        view.src_gid = a_->gid();
        b_->deliver(view);
    }
    [[nodiscard]] wire::PacketHeader to_b_memory(std::uint8_t operation, std::uint32_t psn,
                                                 std::uint32_t length, std::size_t offset = 0) const {
        wire::PacketHeader header;
        header.opcode = operation;
        header.psn = Psn(psn);
        header.reth = {.va = b_mem_->addr(offset), .rkey = b_mem_->key(), .dma_length = length};
        header.atomic = {.va = b_mem_->addr(offset), .rkey = b_mem_->key(), .swap_or_add = 1};
        return header;
    }
    [[nodiscard]] bool same(std::size_t offset, std::size_t length) const {
        return std::equal(a_mem_->data() + offset, a_mem_->data() + offset + length, b_mem_->data() + offset);
    }
    static std::uint64_t& word(SimRegion& region, std::size_t offset) {
        return *reinterpret_cast<std::uint64_t*>(region.data() + offset);
    }

    SimNetwork net_;
    std::unique_ptr<SimHost> a_;
    std::unique_ptr<SimHost> b_;
    SimRegion* a_mem_ = nullptr;
    SimRegion* b_mem_ = nullptr;
    std::uint64_t next_recv_wr_id_ = 100;
};

inline Done ok(std::uint64_t wr_id) { return {wr_id, WcStatus::kSuccess}; }
inline Done flushed(std::uint64_t wr_id) { return {wr_id, WcStatus::kWrFlushErr}; }

}  // namespace urnic::sim
