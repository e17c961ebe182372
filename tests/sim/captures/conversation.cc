#include "tests/sim/captures/conversation.h"

#include <algorithm>
#include <stdexcept>

#include "tests/support/pcap.h"

namespace urnic::sim {

namespace {

/// The operation that begins with this packet; its data comes with the packets.
CapturedOperation begin_operation(const wire::PacketHeader& header, const wire::OpcodeInfo& info) {
    CapturedOperation operation;
    operation.first_psn = header.psn;
    operation.reth = header.reth;
    operation.atomic = header.atomic;
    operation.length_bytes = header.reth.dma_length;
    operation.opcode = WrOpcode::kSend;
    if ((info.flags & wire::kIsWrite) != 0) {
        operation.opcode = WrOpcode::kWrite;
    } else if ((info.flags & wire::kIsRead) != 0) {
        operation.opcode = WrOpcode::kRead;
    } else if ((info.flags & wire::kIsAtomic) != 0) {
        const bool swaps = (header.opcode & wire::kOperationMask) == wire::kCompareSwap;
        operation.opcode = swaps ? WrOpcode::kCompareSwap : WrOpcode::kFetchAdd;
        operation.length_bytes = sizeof(std::uint64_t);
    }
    return operation;
}

}  // namespace

const std::vector<std::string>& rc_captures() {
    static const std::vector<std::string> names = {"atomic_cas",     "mtu4096_write", "rc_read", "rc_send",
                                                   "rc_send_ll6",    "rc_write",      "rnr",     "rping",
                                                   "send_odd_sizes", "write_loss"};
    return names;
}

Conversation::Conversation(const std::string& name) {
    wire::Gid first_sender{};
    TimeNs first_time = 0;
    for (const test::TimedFrame& frame :
         test::read_timed_pcap(std::string(URNIC_GOLDEN_DIR) + "/" + name + ".pcap")) {
        CapturedFrame captured;
        captured.bytes = frame.bytes;
        const wire::ParseError error = wire::parse_frame(captured.bytes, captured.view);
        if (error == wire::ParseError::kNotRoce) {
            continue;
        }
        if (error != wire::ParseError::kNone || !wire::icrc_ok(captured.view)) {
            throw std::runtime_error(name + " has a damaged packet");
        }
        if ((captured.view.header.opcode & wire::kServiceMask) != wire::kServiceRc) {
            continue;
        }
        if (frames_.empty()) {
            first_sender = captured.view.src_gid;
            first_time = frame.time_ns;
        }
        captured.time = frame.time_ns - first_time;
        captured.sender = captured.view.src_gid == first_sender ? 0 : 1;
        qp_num_[1 - captured.sender] = captured.view.header.dest_qp;
        // First and Middle packets carry one path MTU.
        if ((captured.info().flags & (wire::kHasPayload | wire::kEnds)) == wire::kHasPayload) {
            mtu_bytes_ = static_cast<std::uint32_t>(captured.view.payload.size());
        }
        frames_.push_back(std::move(captured));
    }
    // The vector of bytes moved with its frame, so the views still hold.
}

std::vector<const CapturedFrame*> Conversation::sent_by(int sender, bool requests) const {
    std::vector<const CapturedFrame*> result;
    for (const CapturedFrame& frame : frames_) {
        if (frame.sender == sender && frame.is_request() == requests) {
            result.push_back(&frame);
        }
    }
    return result;
}

std::vector<CapturedOperation> Conversation::operations_of(int sender) const {
    // Each PSN once, in order: repetitions and gaps of a lossy link away.
    const std::vector<const CapturedFrame*> requests = sent_by(sender, true);
    std::map<std::int32_t, const CapturedFrame*> by_psn;
    for (const CapturedFrame* frame : requests) {
        by_psn.emplace(frame->view.header.psn.distance(requests.front()->view.header.psn), frame);
    }
    std::vector<CapturedOperation> operations;
    for (const auto& [position, frame] : by_psn) {
        const wire::OpcodeInfo& info = frame->info();
        if ((info.flags & wire::kStarts) != 0 || (info.flags & (wire::kIsRead | wire::kIsAtomic)) != 0) {
            operations.push_back(begin_operation(frame->view.header, info));
        }
        CapturedOperation& operation = operations.back();
        operation.data.insert(operation.data.end(), frame->view.payload.begin(), frame->view.payload.end());
        if ((info.flags & wire::kIsSend) != 0) {
            operation.length_bytes = static_cast<std::uint32_t>(operation.data.size());
            operation.solicited = frame->view.header.solicited;
        }
    }
    return operations;
}

std::uint32_t Conversation::first_psn(int sender) const {
    const std::vector<const CapturedFrame*> requests = sent_by(sender, true);
    return requests.empty() ? 0 : requests.front()->view.header.psn.value();
}

wire::PathSpec Conversation::path(int sender) const {
    const auto frame = std::find_if(frames_.begin(), frames_.end(), [&](const CapturedFrame& candidate) {
        return candidate.sender == sender;
    });
    wire::PathSpec spec;
    spec.src_mac = frame->view.src_mac;
    spec.dst_mac = frame->view.dst_mac;
    spec.src_gid = frame->view.src_gid;
    spec.dst_gid = frame->view.dst_gid;
    return spec;
}

}  // namespace urnic::sim
