// Writes captures of RPC-over-RDMA as pcapng files: rpcrdma.pcapng has messages of both versions without the
// connection's setup, rpcrdma_cm.pcapng connections with their setup and messages that are no good.
//
// usage: write_rpcrdma DIRECTORY
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "rnic/wire/mad/cm.h"
#include "rnic/wire/mad/mad.h"
#include "tests/support/capture_bytes.h"
#include "tests/support/packet_build.h"
#include "tests/unit/ulp/rpcrdma/codec/vectors.h"
#include "ulp/rpcrdma/codec/header.h"
#include "ulp/rpcrdma/codec/private_data.h"

namespace urnic {
namespace {

using rpcrdma::Octets;
using rpcrdma::octets_of;
using Words = std::initializer_list<std::uint32_t>;

constexpr std::uint32_t kClientQp = 0x11;
constexpr std::uint32_t kServerQp = 0x22;
constexpr std::uint8_t kUdSendOnly = wire::kServiceUd | std::uint8_t{wire::kSendOnly};

/// Of RDMA READ and WRITE. A READ's responses begin with the PSN of its request.
struct Remote {
    wire::Reth reth;
    std::optional<std::uint32_t> psn;
};

/// One pcapng file of packets between a client and a server.
class Capture {
  public:
    void to_server(const Octets& message, std::uint8_t opcode = wire::kSendOnly,
                   std::uint32_t qpn = kServerQp) {
        add(true, opcode, qpn, message);
    }
    void to_client(const Octets& message, std::uint8_t opcode = wire::kSendOnly,
                   std::uint32_t qpn = kClientQp) {
        add(false, opcode, qpn, message);
    }
    /// READ, WRITE, or READ response; returns its PSN.
    std::uint32_t rdma(bool is_to_server, std::uint8_t opcode, const Remote& remote,
                       const Octets& payload = {}) {
        add(is_to_server, opcode, is_to_server ? kServerQp : kClientQp, payload, remote);
        return psn_ - 1;
    }
    /// A packet that was not captured.
    void skip() { ++psn_; }
    /// A packet that was sent again.
    void repeat() {
        packets_.push_back(packets_.back());
        packets_.back().time_ns += 1'000'000;
    }
    void write(const std::string& path) const {
        std::ofstream file(path, std::ios::binary);
        file << test::pcapng_section(false) << test::pcapng_interface(false, 1, 6);
        for (const test::CapturedPacket& packet : packets_) {
            file << test::pcapng_packet(false, 0, packet.time_ns / 1000, packet);
        }
        if (!file.flush()) {
            throw std::runtime_error("cannot write " + path);
        }
    }

  private:
    void add(bool is_to_server, std::uint8_t opcode, std::uint32_t qpn, const Octets& payload,
             const Remote& remote = {}) {
        wire::Packet packet;
        packet.ethernet.dst_mac = {2, 0, 0, 0, 0, 1};
        packet.ethernet.src_mac = {2, 0, 0, 0, 0, 2};
        packet.network = wire::Network::kIpv4;
        packet.ipv4.src_address = {10, 77, 0, 12};
        packet.ipv4.dst_address = {10, 77, 0, 11};
        if (!is_to_server) {
            std::swap(packet.ethernet.dst_mac, packet.ethernet.src_mac);
            std::swap(packet.ipv4.dst_address, packet.ipv4.src_address);
        }
        packet.has_udp = true;
        packet.udp.src_port = 50000;
        packet.udp.dst_port = 4791;
        packet.has_transport = true;
        packet.transport.opcode = opcode;
        packet.transport.dest_qp = qpn;
        packet.transport.psn = Psn(remote.psn.value_or(psn_++));
        packet.transport.reth = remote.reth;
        packet.transport.ieth_rkey = 0xa101;
        packet.transport.deth = {wire::kGsiQkey, wire::kQp1};
        packet.payload = payload;
        std::vector<std::byte> bytes(wire::kMaxPacketBytes);
        bytes.resize(wire::build_packet(packet, bytes));
        packets_.push_back({bytes, bytes.size(), packets_.size() * 1'000'000});
    }

    std::uint32_t psn_ = 0;
    std::vector<test::CapturedPacket> packets_;
};

Octets operator+(Octets front, const Octets& behind) {
    front.insert(front.end(), behind.begin(), behind.end());
    return front;
}

Octets nfs_call(std::uint32_t xid, std::uint32_t procedure) {
    return octets_of({xid, 0, 2, 100003, 4, procedure, 0, 0, 0, 0});
}
/// With arguments as far as the position of a Read chunk behind them.
Octets nfs_call_of_160(std::uint32_t xid) {
    Octets call = nfs_call(xid, 1);
    call.resize(160);
    return call;
}
Octets accepted_reply(std::uint32_t xid, std::uint32_t status) {
    return octets_of({xid, 1, 0, 0, 0, status});
}

void add_version_2(Capture& capture) {
    capture.to_server(rpcrdma::kConnprop.octets());
    capture.to_server(rpcrdma::kNullCall2.octets());
    capture.to_client(octets_of({0x11223344, 2, 0x10, 0, 1, 0, 0, 0, 0}) + accepted_reply(0x11223344, 0));
    capture.to_server(rpcrdma::kChunkedCall.octets() + nfs_call_of_160(0x11223345));
    capture.to_client(octets_of({0x11223345, 2, 0x10, 1, 1, 0, 0, 0, 1, 1, 0xb201, 0x1388, 0x7f00, 0x10000}),
                      wire::kSendOnlyInvalidate);
    capture.to_server(
        octets_of({0x11223346, 2, 0x20, 0, 0, 0, 0, 1, 1, 0xc301, 0x2000, 0x7f00, 0x20000, 0, 0}) +
        nfs_call(0x11223346, 1));
    capture.to_client(rpcrdma::kReplyWithWriteChunk.octets() + accepted_reply(0x11223346, 0));
    for (const rpcrdma::Vector* vector : {&rpcrdma::kErrVers, &rpcrdma::kErrReadChunks,
                                          &rpcrdma::kErrWriteResource, &rpcrdma::kErrReplyResource}) {
        capture.to_client(vector->octets());
    }
    capture.to_server(rpcrdma::kOptional.octets());
    capture.to_client(rpcrdma::kErrInvalOption.octets());
    capture.to_server(rpcrdma::kReqprop.octets());
    capture.to_client(rpcrdma::kResprop.octets());
    capture.to_client(octets_of({0x78, 2, 0x10, 9, 2, 2, 0, 0xffffff01, 3, 0x61626300}));
    // Longer than a packet: what says how it went is in the first.
    Octets long_call = octets_of({0x11223347, 2, 0x20, 0, 0, 0, 0, 0, 0}) + nfs_call(0x11223347, 1);
    long_call.resize(1024);
    capture.to_server(long_call, wire::kSendFirst);
    capture.to_server(Octets(100), wire::kSendLast);
}

void add_version_1(Capture& capture) {
    capture.to_server(rpcrdma::kNullCall1.octets());
    capture.to_client(octets_of({0x11223344, 1, 0x10, 0, 0, 0, 0}) + accepted_reply(0x11223344, 0));
    capture.to_server(
        octets_of({0x21223345, 1,      0x20,    0,      1,      0xa0,   0xa101,  0x1000, 0x7f00, 0x1000,
                   1,          0xa0,   0xa102,  0x64,   0x7f00, 0x2000, 0,       1,      2,      0xc301,
                   0x2000,     0x7f00, 0x20000, 0xc302, 0x800,  0x7f00, 0x30000, 0,      0}) +
        nfs_call_of_160(0x21223345));
    capture.to_client(octets_of({0x21223345, 1, 0x10, 0, 0, 1, 2, 0xc301, 0x1388, 0x7f00, 0x20000, 0xc302, 0,
                                 0x7f00, 0x30000, 0, 0}) +
                      accepted_reply(0x21223345, 0));
    capture.to_server(octets_of({0x21223346, 1, 0x20, 1, 1, 0, 0xa101, 0x1000, 0x7f00, 0x1000, 0, 0, 1, 1,
                                 0xb201, 0x2000, 0x7f00, 0x10000}));
    capture.to_client(octets_of({0x21223346, 1, 0x20, 1, 0, 0, 1, 1, 0xb201, 0x1388, 0x7f00, 0x10000}));
    capture.to_client(octets_of({0x21223347, 1, 0x20, 4, 1, 1, 1}));
    capture.to_client(octets_of({0x21223348, 1, 0x20, 4, 2}));
    // A program that the server has not; a Call that it denies.
    capture.to_server(octets_of({0x21223349, 1, 0x20, 0, 0, 0, 0}) +
                      octets_of({0x21223349, 0, 2, 0x40000000, 1, 7, 0, 0, 0, 0}));
    capture.to_client(octets_of({0x21223349, 1, 0x20, 0, 0, 0, 0}) + accepted_reply(0x21223349, 1));
    capture.to_client(octets_of({0x21223350, 1, 0x20, 0, 0, 0, 0}) + octets_of({0x21223350, 1, 1, 1, 1}));
    capture.to_client(octets_of({0x21223351, 1, 0x20, 0, 0, 0, 0}) + octets_of({0x21223351, 1, 1, 0, 0, 0}));
}

/// A header that is longer than a packet. `lost`: this packet is not in the capture; `again`: this one is
/// twice.
void add_long_header(Capture& capture, std::uint32_t xid, std::uint32_t qpn, std::optional<int> lost,
                     std::optional<int> again) {
    Octets octets = octets_of({xid, 2, 0x20, 1, 0, 0});
    for (std::uint32_t i = 0; i < 30; ++i) {
        octets = octets + octets_of({1, 0, 0xa000 + i, 0x1000, 0x7f00, i * 0x1000});
    }
    octets = octets + octets_of({0, 0, 0});
    constexpr std::size_t kPathMtu = 256;
    for (int i = 0; !octets.empty(); ++i) {
        const std::size_t length = std::min(kPathMtu, octets.size());
        const Octets packet(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(length));
        octets.erase(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(length));
        if (i == lost) {
            capture.skip();
            continue;
        }
        capture.to_server(packet,
                          i == 0           ? wire::kSendFirst
                          : octets.empty() ? wire::kSendLast
                                           : wire::kSendMiddle,
                          qpn);
        if (i == again) {
            capture.repeat();
        }
    }
}

/// A Call in a Position-Zero Read chunk, and its Reply in a Reply chunk; then what looks like that and is
/// not.
void add_messages_in_chunks(Capture& capture) {
    constexpr std::uint32_t kXid = 0x41223344;
    const wire::Reth call_chunk{0x7f00'0000'1000, 0xa101, 600};
    const wire::Reth reply_chunk{0x7f00'0001'0000, 0xb201, 8192};
    Octets call = nfs_call(kXid, 1);
    call.resize(256);
    Octets reply = accepted_reply(kXid, 0);
    reply.resize(256);
    // Before the Call nobody knows what these are.
    capture.rdma(false, wire::kReadRequest, {call_chunk, {}});
    capture.rdma(false, wire::kWriteFirst, {reply_chunk, {}}, reply);
    capture.to_server(octets_of({kXid,   2,      0x20, 1, 0, 0, 1,      0,      0xa101, 600,
                                 0x7f00, 0x1000, 0,    0, 1, 1, 0xb201, 0x2000, 0x7f00, 0x10000}));
    const std::uint32_t read = capture.rdma(false, wire::kReadRequest, {call_chunk, {}});
    capture.rdma(true, wire::kReadResponseFirst, {{}, read + 7}, call);  // to another READ
    capture.rdma(true, wire::kReadResponseFirst, {{}, read}, call);
    capture.rdma(true, wire::kReadResponseMiddle, {{}, read + 1}, Octets(256));
    capture.rdma(true, wire::kReadResponseLast, {{}, read + 2}, Octets(88));
    capture.rdma(false, wire::kWriteFirst, {reply_chunk, {}}, reply);
    capture.rdma(false, wire::kWriteLast, {reply_chunk, {}}, Octets(100));
    capture.to_client(octets_of({kXid, 2, 0x20, 1, 1, 0, 0, 0, 1, 1, 0xb201, 356, 0x7f00, 0x10000}));
    // The same memory, and other data in it; another handle; another place of it.
    Octets other = reply;
    other[3] ^= std::byte{1};
    capture.rdma(false, wire::kWriteOnly, {reply_chunk, {}}, other);
    capture.rdma(false, wire::kWriteOnly, {{reply_chunk.va, 0xb202, 256}, {}}, reply);
    capture.rdma(false, wire::kWriteOnly, {{reply_chunk.va + 256, 0xb201, 256}, {}}, reply);
    capture.rdma(false, wire::kWriteOnly, {reply_chunk, {}}, call);
    // The server's own memory.
    capture.rdma(true, wire::kWriteOnly, {reply_chunk, {}}, reply);
}

/// Payloads that begin like a header, and are none.
void add_others(Capture& capture) {
    const Octets call = rpcrdma::kNullCall2.octets();
    const auto changed = [&](std::size_t word, std::uint32_t value) {
        Octets octets = call;
        const Octets encoded = octets_of({value});
        std::ranges::copy(encoded, octets.begin() + static_cast<std::ptrdiff_t>(word * 4));
        return octets;
    };
    capture.to_server(changed(1, 3));  // version
    capture.to_server(changed(2, 0));  // credits
    capture.to_server(changed(2, 65536));
    capture.to_server(changed(3, 10));          // proc
    capture.to_server(changed(4, 1));           // direction
    capture.to_server(changed(6, 2));           // Read list
    capture.to_server(changed(9, 0x11223345));  // XID of the RPC message
    capture.to_server(changed(10, 1));          // its msg_type
    capture.to_server(changed(11, 3));          // its RPC version
    capture.to_server(Octets(call.begin(), call.begin() + 56));
    capture.to_client(rpcrdma::kErrReadChunks.octets() + octets_of({0}));
    capture.to_client(rpcrdma::kReqprop.octets() + octets_of({0}));
    capture.to_client(octets_of({1, 9, 0x10, 4, 1, 1, 2}));  // ERR_VERS of a version that is not known
    capture.to_server(octets_of({0x21223346, 1, 0x20, 1, 1, 0, 0xa101, 0x1000, 0x7f00, 0x1000, 0, 0, 0, 0}));
    capture.to_server(call, wire::kSendLast);
    capture.to_server(octets_of({0x21223346, 1, 0x20, 1, 0, 0, 0}));  // no chunk that could hold the Call
    capture.to_server(rpcrdma::kNullCall2.octets(), wire::kServiceUc | std::uint8_t{wire::kSendOnly});
    capture.to_server(Octets(256));
}

template <class M>
Octets mad_of(const M& message) {
    Octets octets(wire::kMadBytes);
    wire::MadHeader header;
    header.mgmt_class = wire::kMadClassCommunication;
    header.class_version = wire::cm::kClassVersion;
    header.method = wire::kMadSend;
    header.transaction_id = 1;
    header.attribute_id = M::kAttributeId;
    wire::write_fields(wire::kMadTable, &header, octets.data());
    wire::cm::build_cm(message, std::span<std::byte, wire::cm::kMessageBytes>(
                                    octets.data() + wire::kMadHeaderBytes, wire::cm::kMessageBytes));
    return octets;
}

struct Setup {
    std::uint16_t port = rpcrdma::kNfsRdmaPort;
    std::uint32_t comm_id = 0;
    std::uint32_t client_qpn = kClientQp;
    std::uint32_t server_qpn = kServerQp;
    bool has_private_data = false;  // in the REQ
    bool has_reply_private_data = false;
    bool has_req = true;
};

void set_up(Capture& capture, const Setup& setup) {
    const auto private_data = rpcrdma::encode_private_data({4096, 8192, true});
    wire::cm::Req req;
    req.local_comm_id = setup.comm_id;
    req.service_id = 0x0106'0000U | setup.port;
    req.local_qpn = setup.client_qpn;
    wire::cm::IpCmHeader ip;
    ip.ip_version = 4;
    ip.src_port = 700;
    ip.src_address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 12};
    ip.dst_address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 11};
    const std::span<std::byte> in_req = std::as_writable_bytes(std::span(req.private_data));
    wire::write_fields(wire::cm::kIpCmHeaderTable, &ip, in_req.data());
    wire::cm::Rep rep;
    rep.local_comm_id = setup.comm_id + 1;
    rep.remote_comm_id = setup.comm_id;
    rep.local_qpn = setup.server_qpn;
    if (setup.has_private_data) {
        std::ranges::copy(private_data, in_req.begin() + wire::cm::kIpCmHeaderBytes);
    }
    if (setup.has_reply_private_data) {
        std::ranges::copy(private_data, std::as_writable_bytes(std::span(rep.private_data)).begin());
    }
    wire::cm::Rtu rtu;
    rtu.local_comm_id = setup.comm_id;
    rtu.remote_comm_id = setup.comm_id + 1;
    if (setup.has_req) {
        capture.to_server(mad_of(req), kUdSendOnly, wire::kQp1);
    }
    capture.to_client(mad_of(rep), kUdSendOnly, wire::kQp1);
    capture.to_server(mad_of(rtu), kUdSendOnly, wire::kQp1);
}

/// What only a known connection's messages are taken for.
void add_bad_messages(Capture& capture, const Setup& setup) {
    const auto to_server = [&](const Octets& message, std::uint8_t opcode = wire::kSendOnly) {
        capture.to_server(message, opcode, setup.server_qpn);
    };
    to_server(octets_of({1, 2, 0x20, 0, 0, 0, 1, 4, 7, 8, 0, 0, 1, 0, 7, 8, 0, 0, 0, 0, 0}));  // positions
    to_server(octets_of({2, 2, 0x20, 10, 0}));
    to_server(octets_of({3, 9, 0x20, 0}));
    to_server(octets_of({4, 2}));
    to_server(octets_of({5, 2, 0x20, 0, 0, 0, 0, 0, 0}) + nfs_call(6, 1));  // another XID
    to_server(octets_of({7, 2, 0x20, 0, 0, 0, 1, 4}), wire::kSendFirst);
    capture.to_client(octets_of({8, 1, 0x20, 0, 0, 2}), wire::kSendOnly, setup.client_qpn);
    capture.to_client(octets_of({9, 9, 0x10, 4, 1, 1, 2}), wire::kSendOnly, setup.client_qpn);
}

void write_captures(const std::string& directory) {
    Capture messages;
    add_version_2(messages);
    add_version_1(messages);
    add_others(messages);
    add_long_header(messages, 0x31223344, kServerQp, {}, {});
    for (const int lost : {0, 1, 2}) {
        add_long_header(messages, 0x31223345, kServerQp, lost, {});
    }
    add_long_header(messages, 0x31223346, kServerQp, {}, 1);
    add_messages_in_chunks(messages);
    messages.write(directory + "/rpcrdma.pcapng");

    Capture connections;
    const std::vector<Setup> setups = {
        {.comm_id = 0x100, .has_private_data = true, .has_reply_private_data = true},
        {.port = 2050, .comm_id = 0x200, .client_qpn = 0x31, .server_qpn = 0x32},
        {.port = 2051, .comm_id = 0x300, .client_qpn = 0x41, .server_qpn = 0x42, .has_private_data = true},
        // Of this one the capture begins with the REP: the client's QP is not known.
        {.port = 2052,
         .comm_id = 0x400,
         .client_qpn = 0x51,
         .server_qpn = 0x52,
         .has_reply_private_data = true,
         .has_req = false},
        // The QPs of the first one, for something else.
        {.port = 2053, .comm_id = 0x500},
    };
    for (const Setup& setup : setups) {
        set_up(connections, setup);
        add_bad_messages(connections, setup);
        add_long_header(connections, 10, setup.server_qpn, {}, {});
    }
    connections.write(directory + "/rpcrdma_cm.pcapng");
}

}  // namespace
}  // namespace urnic

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: write_rpcrdma DIRECTORY\n");
        return 2;
    }
    try {
        urnic::write_captures(argv[1]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "write_rpcrdma: %s\n", error.what());
        return 1;
    }
    return 0;
}
