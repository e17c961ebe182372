// ARP and neighbour discovery: what the device's host says to those who ask for a MAC, and whether the device
// takes notice of one that changes.
#include <algorithm>
#include <exception>

#include "conform/live_cases/live_script.h"
#include "rnic/neighbour/neighbour_message.h"

namespace urnic::conform {

namespace {

constexpr std::size_t kLeastFrame = 60;

/// What the tester sends, if nothing is changed: a question by broadcast, or to the group that is asked.
net::NeighbourMessage question(const wire::PathSpec& path, const Gid& target) {
    net::NeighbourMessage message;
    message.eth_src = message.sender_mac = path.src_mac;
    message.eth_dst = net::kBroadcastMac;
    message.sender = path.src_gid;
    message.target = target;
    if (!wire::is_ipv4_mapped(target)) {
        const Gid group = net::solicited_node(target);
        message.eth_dst = {0x33, 0x33, group[12], group[13], group[14], group[15]};
    }
    return message;
}

/// The tester's address has that MAC: a gratuitous ARP, an unsolicited advertisement. To the device alone.
net::NeighbourMessage announcement(const wire::PathSpec& path, const Mac& mac) {
    net::NeighbourMessage message;
    message.eth_src = path.src_mac;
    message.eth_dst = path.dst_mac;
    message.sender = path.src_gid;
    message.sender_mac = mac;
    const bool is_ipv4 = wire::is_ipv4_mapped(path.src_gid);
    message.op = is_ipv4 ? net::NeighbourOp::kAsk : net::NeighbourOp::kAnswer;
    message.target = is_ipv4 ? path.src_gid : path.dst_gid;
    return message;
}

FrameBytes frame_of(const net::NeighbourMessage& message) {
    FrameBytes frame(net::kMaxNeighbourBytes);
    frame.resize(std::max(net::build_neighbour(message, frame), kLeastFrame));
    return frame;
}

Mac destination_of(const SeenFrame& frame) {
    Mac mac{};
    std::transform(frame.bytes.begin(), frame.bytes.begin() + mac.size(), mac.begin(),
                   [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
    return mac;
}

}  // namespace

class LiveNeighbour : public LiveScript {
  protected:
    /// Of the answers that come to a message: those about `address`.
    std::vector<net::NeighbourMessage> answers_to(const net::NeighbourMessage& message, const Gid& address,
                                                  TimeNs patience) {
        live().transmit({frame_of(message)});
        std::vector<net::NeighbourMessage> answers;
        for (const SeenFrame& frame : live().neighbour_messages(address, patience)) {
            net::NeighbourMessage answer;
            require(net::parse_neighbour(frame.bytes, answer) == net::NeighbourParse::kGood,
                    "an answer is malformed");
            answers.push_back(answer);
        }
        return answers;
    }
    /// An answer to the tester with the device's MAC, and no other.
    void answers_for_itself(const net::NeighbourMessage& message) {
        constexpr int kTries = 3;  // a question may get lost
        const wire::PathSpec path = bench().path();
        std::vector<net::NeighbourMessage> answers;
        for (int i = 0; i < kTries && answers.empty(); ++i) {
            answers = answers_to(message, path.dst_gid, bench().tolerance().patience_ns / kTries);
        }
        require(!answers.empty(), "expected an answer for the device's address, seen none");
        for (const net::NeighbourMessage& answer : answers) {
            require(answer.sender_mac == path.dst_mac, "two hosts answer for the device's address");
            require(answer.eth_dst == path.src_mac && answer.target == path.src_gid && answer.is_solicited,
                    "the answer does not go to who asked");
        }
    }
    void announce(const Mac& mac) { live().transmit({frame_of(announcement(bench().path(), mac))}); }
    /// The MAC that the ACK of the next WRITE goes to; nothing: no ACK was seen.
    std::optional<Mac> mac_of_next_ack() {
        peer(write_only(psn_++, 8));
        const std::optional<SeenFrame> frame = next_but_cnps(200 * kMillisecond);
        return frame ? std::optional(destination_of(*frame)) : std::nullopt;
    }
    /// The tester has its own MAC again, also for the device's host, which takes no new one for a second
    /// (Linux, `locktime`).
    void come_back() {
        constexpr int kTimes = 15;
        for (int i = 0; i < kTimes; ++i) {
            announce(bench().path().src_mac);
            wait(100 * kMillisecond);
        }
    }

  private:
    std::uint32_t psn_ = ConnectOptions{}.psn_b;
};

CONFORM_CASE_IN(LiveNeighbour, AnswersForItsAddress, "RFC 826 (RFC 4861 7.2.4)",
                "an ARP request or a solicitation for the device's address is answered with its MAC, to who "
                "asks, whether it came to all or to the device alone") {
    const wire::PathSpec path = bench().path();
    net::NeighbourMessage message = question(path, path.dst_gid);
    answers_for_itself(message);
    message.eth_dst = path.dst_mac;
    answers_for_itself(message);
}

CONFORM_CASE_IN(LiveNeighbour, NotForAnother, "RFC 826 (RFC 4861 7.2.3)",
                "who asks the device's host for the MAC of an address that it has not gets no answer") {
    // For documents alone: TEST-NET-3 (RFC 5737), 2001:db8::/32 (RFC 3849).
    constexpr Gid kIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 203, 0, 113, 77};
    constexpr Gid kIpv6 = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77};
    const wire::PathSpec path = bench().path();
    const Gid another = wire::is_ipv4_mapped(path.src_gid) ? kIpv4 : kIpv6;
    net::NeighbourMessage message = question(path, another);
    require(answers_to(message, another, 100 * kMillisecond).empty(), "there is an answer to all");
    message.eth_dst = path.dst_mac;
    require(answers_to(message, another, 100 * kMillisecond).empty(), "there is an answer to the device");
    answers_for_itself(question(path, path.dst_gid));
}

CONFORM_CASE_IN(
    LiveNeighbour, PeerWithAnotherMac, "RFC 826 (RFC 4861 7.2.6)",
    "during a connection the peer's address gets another MAC: whether answers go there, and when") {
    constexpr int kMostTimes = 15;
    connect();
    const Mac own = bench().path().src_mac;
    Mac other = own;
    other[0] |= 2U;  // locally administered
    other.back() ^= 1U;
    require(mac_of_next_ack() == own, "the first ACK does not go to the tester");
    const TimeNs begin = live().real_now();
    std::optional<Mac> last = own;
    std::exception_ptr failure;
    try {
        for (int i = 0; i < kMostTimes && last == own; ++i) {
            announce(other);
            wait(100 * kMillisecond);
            last = mac_of_next_ack();
        }
    } catch (...) {
        failure = std::current_exception();
    }
    const TimeNs took = live().real_now() - begin;
    come_back();
    if (failure) {
        std::rethrow_exception(failure);
    }
    require(!last || *last == own || *last == other, "an ACK goes to a MAC that is nobody's");
    measured("answers to a peer whose MAC changes",
             last == own ? "stay with the MAC of before for " + duration_text(took)
                         : "go to the new one within " + duration_text(took));
    live().forget();
    require(mac_of_next_ack() == own, "the tester's own MAC is not used again");
    leave_the_rest();
}

}  // namespace urnic::conform
