#include "dataplane/port/kernel/classic_bpf.h"

#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>

#include <cstdint>
#include <map>
#include <string>

#include "base/check.h"
#include "rnic/wire/dissect/eth/headers.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"

namespace urnic::dataplane {

namespace {

/// Puts a program together; jumps go forward to labels.
class Assembler {
  public:
    void add(std::uint32_t code, std::uint32_t operand = 0) {
        program_.push_back({static_cast<std::uint16_t>(code), 0, 0, operand});
    }
    /// Goes on at `target` when the accumulator compares so with `operand`, else at the next instruction.
    void jump_if(std::uint32_t compare, std::uint32_t operand, const std::string& target) {
        jumps_.push_back({program_.size(), target, true});
        add(BPF_JMP | compare | BPF_K, operand);
    }
    void jump_unless(std::uint32_t compare, std::uint32_t operand, const std::string& target) {
        jumps_.push_back({program_.size(), target, false});
        add(BPF_JMP | compare | BPF_K, operand);
    }
    void label(const std::string& name) { labels_[name] = program_.size(); }
    [[nodiscard]] std::vector<sock_filter> finish() {
        for (const Jump& jump : jumps_) {
            const std::size_t distance = labels_.at(jump.target) - jump.at - 1;
            URNIC_CHECK(distance < 256);
            sock_filter& from = program_[jump.at];
            std::uint8_t& skip = jump.if_true ? from.jt : from.jf;
            skip = static_cast<std::uint8_t>(distance);
        }
        return program_;
    }

  private:
    struct Jump {
        std::size_t at;
        std::string target;
        bool if_true;
    };
    std::vector<sock_filter> program_;
    std::vector<Jump> jumps_;
    std::map<std::string, std::size_t> labels_;
};

// A fan-out program sees the packet from its network header on, a socket's filter from the Ethernet header;
// offsets from here mean the Ethernet header to both.
constexpr auto kFrame = static_cast<std::uint32_t>(SKF_LL_OFF);
constexpr std::uint32_t kType = 12;  // of an Ethernet header without tags
constexpr std::uint32_t kIp = wire::kEthernetBytes;
constexpr std::uint32_t kEtherTypeQinq = 0x88a8;
constexpr std::uint32_t kAll = 0x40000;

void load_half(Assembler& code, std::uint32_t offset) { code.add(BPF_LD | BPF_H | BPF_ABS, kFrame + offset); }
/// Behind the tags, whose length is in X.
void load_behind_tags(Assembler& code, std::uint32_t size, std::uint32_t offset) {
    code.add(BPF_LD | size | BPF_IND, kFrame + offset);
}

/// Leaves the EtherType in A and the length of the tags in X. The outermost tag is not there any more: the
/// kernel has taken it off (the receiver puts it back).
void skip_tags(Assembler& code) {
    code.add(BPF_LDX | BPF_IMM, 0);
    load_half(code, kType);
    for (std::uint32_t tag = 1; tag <= 2; ++tag) {
        const std::string number = std::to_string(tag);
        code.jump_if(BPF_JEQ, wire::kEtherTypeVlan, "tag" + number);
        code.jump_unless(BPF_JEQ, kEtherTypeQinq, "type");
        code.label("tag" + number);
        code.add(BPF_LDX | BPF_IMM, tag * wire::kVlanTagBytes);
        load_behind_tags(code, BPF_H, kType);
    }
    code.label("type");
}

/// Goes to "udp" with X so that the UDP header lies kIp behind it, or to "icmp6", or to "other".
void find_udp(Assembler& code) {
    code.jump_if(BPF_JEQ, wire::kEtherTypeIpv4, "ipv4");
    code.jump_unless(BPF_JEQ, wire::kEtherTypeIpv6, "other");
    load_behind_tags(code, BPF_B, kIp + wire::kIpv6NextHeader);
    code.jump_if(BPF_JEQ, IPPROTO_ICMPV6, "icmp6");
    code.jump_unless(BPF_JEQ, IPPROTO_UDP, "other");
    code.add(BPF_MISC | BPF_TXA);
    code.add(BPF_ALU | BPF_ADD, wire::kIpv6Bytes);
    code.add(BPF_MISC | BPF_TAX);
    code.jump_if(BPF_JGE, 0, "udp");
    code.label("ipv4");
    load_behind_tags(code, BPF_B, kIp + wire::kIpv4Protocol);
    code.jump_unless(BPF_JEQ, IPPROTO_UDP, "other");
    load_behind_tags(code, BPF_H, kIp + wire::kIpv4Fragment);
    code.jump_if(BPF_JSET, wire::kIpv4FragmentMask, "other");  // the kernel puts fragments together
    load_behind_tags(code, BPF_B, kIp);
    code.add(BPF_ALU | BPF_AND | BPF_K, 0x0f);  // in words
    code.add(BPF_ALU | BPF_LSH | BPF_K, 2);
    code.add(BPF_ALU | BPF_ADD | BPF_X);
    code.add(BPF_MISC | BPF_TAX);
    code.label("udp");
    load_behind_tags(code, BPF_H, kIp + wire::kUdpDestinationPort);
    code.jump_unless(BPF_JEQ, wire::kRocev2UdpPort, "other");
}

}  // namespace

std::vector<sock_filter> rdma_filter() {
    Assembler code;
    code.add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE));
    code.jump_if(BPF_JEQ, PACKET_OUTGOING, "other");
    skip_tags(code);
    code.jump_if(BPF_JEQ, ETH_P_ARP, "ours");
    code.jump_if(BPF_JEQ, wire::kEtherTypeMacControl, "ours");
    find_udp(code);
    code.label("ours");
    code.add(BPF_RET | BPF_K, kAll);
    code.label("icmp6");
    load_behind_tags(code, BPF_B, kIp + wire::kIpv6Bytes);
    // RFC 4861 4: router solicitation 133 to redirect 137.
    code.jump_unless(BPF_JGE, 133, "other");
    code.jump_if(BPF_JGT, 137, "other");
    code.add(BPF_RET | BPF_K, kAll);
    code.label("other");
    code.add(BPF_RET | BPF_K, 0);
    return code.finish();
}

std::vector<sock_filter> dest_qp_program() {
    Assembler code;
    skip_tags(code);
    find_udp(code);
    load_behind_tags(code, BPF_W, kIp + wire::kUdpBytes + wire::kBthDestQp - 1);
    code.add(BPF_ALU | BPF_AND | BPF_K, 0xff'ffff);
    code.add(BPF_RET | BPF_A);
    code.label("icmp6");
    code.label("other");
    code.add(BPF_RET | BPF_K, 0);
    return code.finish();
}

std::vector<sock_filter> reject_all_filter() { return {{BPF_RET | BPF_K, 0, 0, 0}}; }

}  // namespace urnic::dataplane
