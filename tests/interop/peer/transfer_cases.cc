// SEND, WRITE, READ and atomics over RC and UC, of every odd size, each byte verified and the bytes beside it
// too.
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/interop/peer/cases.h"

namespace urnic::interop {

namespace {

constexpr std::uint8_t kGuard = 0xA5;
constexpr std::uint32_t kImmediate = 0x01020300;

struct Message {
    std::uint32_t number;
    std::size_t offset, length;
};

/// Sizes around every border of a packet, each in a place of its own with room between that nobody may write.
std::vector<Message> messages(const Side& side) {
    const auto mtu = static_cast<std::size_t>(side.options().mtu);
    std::vector<std::size_t> sizes{0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   63,
                                   64,
                                   65,
                                   mtu - 1,
                                   mtu,
                                   mtu + 1,
                                   (2 * mtu) - 1,
                                   2 * mtu,
                                   (2 * mtu) + 1,
                                   (5 * mtu) + 3,
                                   16 * mtu};
    std::vector<Message> all;
    std::size_t offset = 64;
    for (const std::size_t size : sizes) {
        all.push_back({static_cast<std::uint32_t>(all.size()), offset, size});
        // Any alignment.
        offset += size + 37 + (all.size() % 3);
    }
    check(offset <= kMemory, "the messages need more memory");
    return all;
}

void verify_all(Side& side, const std::vector<Message>& all, const char* what) {
    std::size_t end = 0;
    for (const Message& message : all) {
        verify_untouched(side.memory().subspan(end, message.offset - end), kGuard, what);
        verify(side.memory().subspan(message.offset, message.length), message.number, what);
        end = message.offset + message.length;
    }
    verify_untouched(side.memory().subspan(end, 64), kGuard, what);
}

void fill_all(Side& side, const std::vector<Message>& all) {
    for (const Message& message : all) {
        fill(side.memory().subspan(message.offset, message.length), message.number);
    }
}

/// WRITEs and SENDs of every size from the active side, READs by it.
void transfer_round(Side& side, ibv_qp_type type, ibv_wr_opcode opcode) {
    const auto all = messages(side);
    const bool with_immediate = opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const bool sends = opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
    const bool consumes = sends || with_immediate;
    const bool source = side.active() == (opcode != IBV_WR_RDMA_READ);
    std::ranges::fill(side.memory(), kGuard);
    if (source) {
        fill_all(side, all);
    } else if (consumes) {
        for (const Message& message : all) {
            side.post_receive(message.number, sends ? side.piece(message.offset, message.length) : ibv_sge{});
        }
    }
    side.link().meet("posted");
    if (side.active()) {
        for (const Message& message : all) {
            ibv_sge sge = side.piece(message.offset, message.length);
            ibv_send_wr request = side.request(opcode, sge, message.offset);
            request.wr_id = message.number;
            request.imm_data = htonl(kImmediate + message.number);
            side.post(request);
        }
        for (const Message& message : all) {
            check(side.success(message.number).opcode != IBV_WC_RECV,
                  "a receive completed on the sending side");
        }
    } else if (consumes) {
        for (const Message& message : all) {
            const ibv_wc wc = side.success(message.number);
            check(wc.opcode == (sends ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM),
                  "the receive has another opcode");
            check(wc.byte_len == message.length, "the receive has another length");
            check(((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == with_immediate, "immediate data");
            check(!with_immediate || ntohl(wc.imm_data) == kImmediate + message.number,
                  "other immediate data");
        }
    }
    // A UC WRITE without immediate data completes when it is sent: what comes after it has come when this
    // has.
    if (type == IBV_QPT_UC && !consumes) {
        if (!side.active()) {
            side.post_receive(1000, {});
        }
        side.link().meet("last");
        if (side.active()) {
            ibv_sge none{};
            ibv_send_wr last = side.request(IBV_WR_SEND, none, 0);
            last.wr_id = 1000;
            side.post(last);
        }
        side.success(1000);
    }
    side.link().meet("transferred");
    verify_all(side, all, source ? "own message" : "message");
}

void transfer(Side& side, ibv_qp_type type, ibv_wr_opcode opcode) {
    side.connect(type);
    for (int round = 0; round < side.options().rounds; ++round) {
        transfer_round(side, type, opcode);
        side.link().meet("verified");
    }
}

template <ibv_qp_type type, ibv_wr_opcode opcode>
void transfer_case(Side& side) {
    transfer(side, type, opcode);
}

/// One atomic request on the counter at the beginning of the passive side's memory, the old value behind it
/// here.
std::uint64_t atomic(Side& side, ibv_wr_opcode opcode, std::uint64_t compare_or_add, std::uint64_t swap) {
    ibv_sge sge = side.piece(8, 8);
    ibv_send_wr request = side.request(opcode, sge, 0);
    request.wr.atomic.remote_addr = side.peer().memory;
    request.wr.atomic.rkey = side.peer().rkey;
    request.wr.atomic.compare_add = compare_or_add;
    request.wr.atomic.swap = swap;
    side.post(request);
    side.success(0);
    return *reinterpret_cast<const std::uint64_t*>(&side.memory()[8]);
}

void atomics(Side& side, ibv_wr_opcode opcode) {
    side.connect(IBV_QPT_RC);
    auto& counter = *reinterpret_cast<std::uint64_t*>(side.memory().data());
    constexpr std::uint64_t kStart = 0xFFFFFFFFFFFFFFF0;  // goes over the top
    constexpr std::uint64_t kStep = 0x0000000100000003;
    counter = kStart;
    side.link().meet("ready");
    std::uint64_t expected = kStart;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(side.options().count); ++i) {
        const bool hits = i % 3 != 2;
        const std::uint64_t next = expected + kStep;
        if (side.active()) {
            const std::uint64_t old = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
                                          ? atomic(side, opcode, kStep, 0)
                                          : atomic(side, opcode, hits ? expected : ~expected, next);
            check(old == expected, "an atomic returned another value than was there");
        }
        expected = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || hits ? next : expected;
    }
    side.link().meet("added");
    check(side.active() || counter == expected, "the counter has another value in the end");
}

constexpr std::array kTransferCases{
    Case{"send", "RC SEND of odd sizes", transfer_case<IBV_QPT_RC, IBV_WR_SEND>},
    Case{"send_imm", "RC SEND with immediate of odd sizes", transfer_case<IBV_QPT_RC, IBV_WR_SEND_WITH_IMM>},
    Case{"write", "RC WRITE of odd sizes", transfer_case<IBV_QPT_RC, IBV_WR_RDMA_WRITE>},
    Case{"write_imm", "RC WRITE with immediate of odd sizes",
         transfer_case<IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM>},
    Case{"read", "RC READ of odd sizes", transfer_case<IBV_QPT_RC, IBV_WR_RDMA_READ>},
    Case{"uc_send", "UC SEND of odd sizes", transfer_case<IBV_QPT_UC, IBV_WR_SEND>},
    Case{"uc_send_imm", "UC SEND with immediate of odd sizes",
         transfer_case<IBV_QPT_UC, IBV_WR_SEND_WITH_IMM>},
    Case{"uc_write", "UC WRITE of odd sizes", transfer_case<IBV_QPT_UC, IBV_WR_RDMA_WRITE>},
    Case{"uc_write_imm", "UC WRITE with immediate of odd sizes",
         transfer_case<IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM>},
    Case{"fetch_add", "fetch-and-add", [](Side& side) { atomics(side, IBV_WR_ATOMIC_FETCH_AND_ADD); }},
    Case{"cmp_swap", "compare-and-swap that hits and that misses",
         [](Side& side) { atomics(side, IBV_WR_ATOMIC_CMP_AND_SWP); }},
};

}  // namespace

std::span<const Case> transfer_cases() { return kTransferCases; }

}  // namespace urnic::interop
