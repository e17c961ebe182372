#include "conform/cm/cm_bench.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "conform/case/script.h"
#include "rnic/cm/messages.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"

namespace urnic::conform {

namespace {

namespace msg = wire::cm;

constexpr TimeNs kMs = 1'000'000;
constexpr std::size_t kDethBytes = 8;
constexpr std::uint8_t kAckTimeout = 14;  // 67 ms: timewait of the device is as long

// No R_Key of the device is known: packets of no byte name none, others one that nobody has.
class NoRegion final : public Region {
  public:
    [[nodiscard]] std::uint64_t addr(std::size_t offset) const override { return offset; }
    [[nodiscard]] std::uint32_t key() const override { return 0; }
    [[nodiscard]] std::size_t size() const override { return Bench::kMemoryBytes; }
    void read(std::size_t /*offset*/, std::span<std::byte> /*to*/) override { refuse(); }
    void write(std::size_t /*offset*/, std::span<const std::byte> /*from*/) override { refuse(); }

  private:
    static void refuse() { throw CannotPlay("without an agent nobody looks into the device's memory"); }
};

/// The address of an IP CM header: IPv4 in its last four bytes, zeros before.
Gid ip_of(const Gid& gid) {
    Gid ip = gid;
    if (wire::is_ipv4_mapped(gid)) {
        ip[10] = ip[11] = 0;
    }
    return ip;
}

std::optional<HeardMessage> read_mad(const SeenFrame& frame) {
    const std::size_t at = bth_offset(frame.bytes) + wire::kBthBytes + kDethBytes;
    if (frame.bytes.size() < at + wire::kMadBytes) {
        return {};
    }
    HeardMessage heard;
    heard.time = frame.time;
    heard.frame = frame.bytes;
    wire::read_fields(wire::kMadTable, frame.bytes.data() + at, &heard.header);
    const msg::MessageBytes bytes(frame.bytes.data() + at + wire::kMadHeaderBytes, msg::kMessageBytes);
    const std::optional<msg::Message> message = heard.header.mgmt_class == wire::kMadClassCommunication
                                                    ? msg::parse_message(heard.header.attribute_id, bytes)
                                                    : std::nullopt;
    if (!message) {
        return {};
    }
    heard.message = *message;
    return heard;
}

/// The MAD of a frame: equal for repetitions.
FrameBytes mad_of(const FrameBytes& frame) {
    const auto at = static_cast<std::ptrdiff_t>(bth_offset(frame) + wire::kBthBytes + kDethBytes);
    return {frame.begin() + at, frame.begin() + at + static_cast<std::ptrdiff_t>(wire::kMadBytes)};
}

}  // namespace

std::uint32_t receiver_id(const msg::Message& message) {
    return std::visit(
        [](const auto& one) -> std::uint32_t {
            using Kind = std::decay_t<decltype(one)>;
            if constexpr (std::is_same_v<Kind, msg::Req> || std::is_same_v<Kind, msg::SidrReq>) {
                return 0;
            } else if constexpr (std::is_same_v<Kind, msg::SidrRep>) {
                return one.request_id;
            } else {
                return one.remote_comm_id;
            }
        },
        message);
}

std::string message_name(const msg::Message& message) {
    constexpr std::array<const char*, std::variant_size_v<msg::Message>> kNames = {
        "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
    const auto* rej = std::get_if<msg::Rej>(&message);
    return kNames.at(message.index()) +
           (rej == nullptr || rej->reason == 0 ? std::string{} : " reason " + std::to_string(rej->reason));
}

CmBench::CmBench(WirePort& port, const LivePath& path, std::uint64_t service_id, std::uint32_t first_qp)
    : wire_(port, path, [this](std::uint32_t number) { return is_ours(number); }),
      path_(path),
      service_id_(service_id),
      guid_(0x0200'0000'0000'0000U | (static_cast<std::uint64_t>(port.now()) & 0xffff'ffff'ffffU)),
      last_id_(static_cast<std::uint32_t>(port.now() / kMs) | 1U),
      last_qp_(first_qp & 0x7f'ffffU) {
    tolerance_ = LiveWire::tolerance();
    tolerance_.recovery_is_unknown = true;
}

bool CmBench::is_ours(std::uint32_t number) const { return number == wire::kQp1 || number == req_.local_qpn; }

void CmBench::begin_case(TimeNs limit_ns) {
    end_case();
    forget();
    wire_.begin_case(limit_ns);
    if (is_listener_expected_) {
        wait_for_listener();
        forget();
        wire_.begin_case(limit_ns);
    }
}

void CmBench::forget() {
    conversations_.clear();
    messages_.clear();
    frames_.clear();
    has_qp_sent_ = false;
    req_ = {};
    rep_ = {};
}

void CmBench::wait_for_listener() {
    constexpr TimeNs kMostNs = 10'000 * kMs;
    constexpr TimeNs kEachNs = 50 * kMs;
    const TimeNs end = real_now() + kMostNs;
    while (!is_connected()) {
        if (real_now() >= end) {
            throw BenchFailed("the listener has taken no connection for 10 s");
        }
        wire_.collect(real_now() + kEachNs);
    }
    end_case();
}

bool CmBench::is_connected() {
    constexpr TimeNs kEachNs = 1'000 * kMs;
    const msg::Req req = request();
    tell(req);
    const std::optional<HeardMessage> heard = hear_new(req.local_comm_id, real_now() + kEachNs);
    const auto* rep = heard ? std::get_if<msg::Rep>(&heard->message) : nullptr;
    if (rep != nullptr) {
        msg::Rtu rtu;
        rtu.local_comm_id = req.local_comm_id;
        rtu.remote_comm_id = rep->local_comm_id;
        tell(rtu);
    }
    return rep != nullptr;
}

void CmBench::end_case() {
    for (const auto& [id, conversation] : std::map(conversations_)) {
        if (conversation.is_open) {
            release(id);
        }
    }
}

// A device that says nothing about it has had its chance.
void CmBench::release(std::uint32_t id) {
    constexpr int kTimes = 4;
    constexpr TimeNs kEachNs = 500 * kMs;
    const Conversation& conversation = conversations_.at(id);
    msg::Dreq dreq;
    dreq.local_comm_id = id;
    dreq.remote_comm_id = conversation.device_id;
    dreq.remote_qpn_eecn = conversation.device_qp;
    for (int i = 0; i < kTimes && conversation.is_open; ++i) {
        tell(dreq);
        const TimeNs end = wire_.real_now() + kEachNs;
        while (conversation.is_open) {
            if (!sort_next(end)) {
                break;
            }
        }
    }
    conversations_.at(id).is_open = false;
}

// --- Messages ---------------------------------------------------------------------------------------------

std::uint32_t CmBench::next_id() {
    constexpr std::uint32_t kFirst = 2;  // QP0 and QP1 are management's
    last_id_ += 2;
    last_qp_ = std::max((last_qp_ + 1) & 0x7f'ffffU, kFirst);
    conversations_[last_id_] = {};
    return last_id_;
}

std::uint32_t CmBench::open(std::uint32_t device_id, std::uint32_t device_qp) {
    Conversation& conversation = conversations_[next_id()];
    conversation.device_id = device_id;
    conversation.device_qp = device_qp;
    conversation.is_open = true;
    return last_id_;
}

void CmBench::close(std::uint32_t id) {
    if (const auto found = conversations_.find(id); found != conversations_.end()) {
        found->second.is_open = false;
    }
}

msg::Req CmBench::request() {
    (void)next_id();
    cm::ConnectParams params;
    params.route.local_gid = path_.own_gid;
    params.route.remote_gid = path_.device_gid;
    params.service_id = service_id_;
    params.local_qpn = last_qp_;
    params.starting_psn = 1000;
    params.responder_resources = 4;
    params.initiator_depth = 4;
    params.local_ack_timeout = kAckTimeout;
    params.response_timeout = kResponseTimeout;
    if (msg::is_ip_cm_service(service_id_)) {
        params.ip = msg::IpCmHeader{};
        params.ip->ip_version = wire::is_ipv4_mapped(path_.own_gid) ? 4 : 6;
        params.ip->src_port = static_cast<std::uint16_t>(0xc000U | (last_qp_ & 0x3fffU));
        params.ip->src_address = ip_of(path_.own_gid);
        params.ip->dst_address = ip_of(path_.device_gid);
    }
    return cm::make_req(last_id_, guid_, params);
}

std::uint64_t CmBench::transaction_id(const msg::Message& message) {
    return std::visit(
        [](const auto& one) -> std::uint64_t {
            using Kind = std::decay_t<decltype(one)>;
            constexpr std::uint64_t kConnection = 1;
            constexpr std::uint64_t kRelease = 2;
            constexpr std::uint64_t kPath = 3;
            if constexpr (std::is_same_v<Kind, msg::SidrReq> || std::is_same_v<Kind, msg::SidrRep>) {
                return std::uint64_t{one.request_id} << 8U | kConnection;
            } else if constexpr (std::is_same_v<Kind, msg::Dreq> || std::is_same_v<Kind, msg::Drep>) {
                return std::uint64_t{one.local_comm_id} << 8U | kRelease;
            } else if constexpr (std::is_same_v<Kind, msg::Lap> || std::is_same_v<Kind, msg::Apr>) {
                return std::uint64_t{one.local_comm_id} << 8U | kPath;
            } else {
                return std::uint64_t{one.local_comm_id} << 8U | kConnection;
            }
        },
        message);
}

ScriptPacket CmBench::datagram(std::span<const std::byte> mad, std::uint32_t psn) {
    ScriptPacket packet(wire::kSendOnly, psn);
    packet.service(wire::kServiceUd).ackreq(false).dest_qp(wire::kQp1).deth(wire::kGsiQkey, wire::kQp1);
    return packet.bytes(mad);
}

ScriptPacket CmBench::datagram(const msg::Message& message) {
    return std::visit([&](const auto& one) { return datagram(cm::build_mad(one, transaction_id(message))); },
                      message);
}

void CmBench::tell(const ScriptPacket& datagram) {
    wire_.transmit({datagram.build(wire::make_path(wire_.path()), {})});
}
void CmBench::tell(const msg::Message& message) { tell(datagram(message)); }

// What is no message of this case's is answered, or nobody's.
void CmBench::sort(SeenFrame frame) {
    if (frame_header(frame.bytes).dest_qp != wire::kQp1) {
        has_qp_sent_ = true;
        frames_.push_back(std::move(frame));
        return;
    }
    const std::optional<HeardMessage> heard = read_mad(frame);
    if (!heard) {
        return;
    }
    if (std::holds_alternative<msg::Req>(heard->message)) {
        take_request(*heard);
    }
    if (conversations_.count(receiver_id(heard->message)) != 0) {
        note(*heard);
        messages_.push_back(*heard);
    }
    if (const auto* dreq = std::get_if<msg::Dreq>(&heard->message)) {
        msg::Drep drep;
        drep.local_comm_id = dreq->remote_comm_id;
        drep.remote_comm_id = dreq->local_comm_id;
        tell(datagram(cm::build_mad(drep, heard->header.transaction_id)));
    }
}

void CmBench::note(const HeardMessage& heard) {
    Conversation& conversation = conversations_.at(receiver_id(heard.message));
    if (const auto* rep = std::get_if<msg::Rep>(&heard.message)) {
        conversation.is_open = true;
        conversation.device_id = rep->local_comm_id;
        conversation.device_qp = rep->local_qpn;
    } else if (std::holds_alternative<msg::Rtu>(heard.message)) {
        conversation.is_confirmed = true;
    } else if (!std::holds_alternative<msg::Mra>(heard.message) &&
               !std::holds_alternative<msg::Apr>(heard.message)) {
        conversation.is_open = false;  // REJ, DREQ, DREP
    }
}

std::optional<HeardMessage> CmBench::hear(std::uint32_t id, TimeNs until) {
    for (;;) {
        const auto found = std::find_if(messages_.begin(), messages_.end(), [id](const HeardMessage& heard) {
            return receiver_id(heard.message) == id;
        });
        if (found != messages_.end()) {
            HeardMessage heard = std::move(*found);
            messages_.erase(found);
            conversations_[id].heard.push_back(mad_of(heard.frame));
            return heard;
        }
        if (!sort_next(until)) {
            return {};
        }
    }
}

bool CmBench::sort_next(TimeNs until) {
    if (wire_.next(until) == nullptr) {
        return false;
    }
    sort(wire_.take());
    return true;
}

void CmBench::sort_all() {
    while (sort_next(real_now())) {
    }
}

std::optional<HeardMessage> CmBench::hear_new(std::uint32_t id, TimeNs until) {
    for (;;) {
        const std::vector<FrameBytes> before = conversations_[id].heard;
        std::optional<HeardMessage> heard = hear(id, until);
        if (!heard) {
            return {};
        }
        if (std::holds_alternative<msg::Mra>(heard->message)) {
            until = std::max(until, heard->time + kPatienceNs);
        } else if (std::find(before.begin(), before.end(), mad_of(heard->frame)) == before.end()) {
            return heard;
        }
    }
}

// --- The connection ---------------------------------------------------------------------------------------

void CmBench::create(const ConnectOptions& connect, const QpOptions& /*qp*/,
                     std::span<const std::byte> /*data*/) {
    constexpr unsigned kMtuBase = 8;  // 1: 256
    end_case();
    req_ = request();
    req_.path_mtu = static_cast<std::uint8_t>(static_cast<unsigned>(std::bit_width(connect.mtu)) - kMtuBase);
    frames_.clear();
    tell(req_);
    const std::optional<HeardMessage> heard = hear_new(req_.local_comm_id, real_now() + kPatienceNs);
    const auto* rep = heard ? std::get_if<msg::Rep>(&heard->message) : nullptr;
    if (rep == nullptr) {
        throw StepFailed("expected REP for the tester's REQ\n  seen " +
                         (heard ? message_name(heard->message) : "none"));
    }
    rep_ = *rep;
}

void CmBench::rts() {
    msg::Rtu rtu;
    rtu.local_comm_id = req_.local_comm_id;
    rtu.remote_comm_id = rep_.local_comm_id;
    tell(rtu);
}

void CmBench::needs_agent() { throw CannotPlay("this step needs an agent beside the device"); }
int CmBench::modify(const abi::QpAttr& /*attr*/) { needs_agent(); }
QpState CmBench::state(QpState /*hoped*/) { needs_agent(); }
Region& CmBench::memory() {
    static NoRegion region;
    return region;
}
Region& CmBench::add_region(std::size_t /*bytes*/, std::uint32_t /*access*/) { needs_agent(); }
void CmBench::post(const std::vector<SendRequest>& /*requests*/) { needs_agent(); }
void CmBench::post_receive(std::uint64_t /*wr_id*/, const std::vector<abi::Sge>& /*sge*/) { needs_agent(); }

const SeenFrame* CmBench::next(TimeNs until) {
    while (frames_.empty() && sort_next(until)) {
    }
    return frames_.empty() || frames_.front().time > until ? nullptr : &frames_.front();
}

SeenFrame CmBench::take() {
    SeenFrame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
}

}  // namespace urnic::conform
