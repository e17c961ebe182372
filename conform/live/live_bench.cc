#include "conform/live/live_bench.h"

#include <algorithm>
#include <bit>

namespace urnic::conform {

namespace {

constexpr std::size_t kArenaBytes = 1U << 20U;
constexpr std::size_t kScratchBytes = 64U << 10U;  // at the arena's end, for inline data
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kOwnSeed = 1;

constexpr TimeNs kMs = 1'000'000;

std::string attribute(const char* name, std::uint64_t value) {
    return std::string(name) + "=" + std::to_string(value);
}

// ibv_mtu
std::uint32_t mtu_code(std::uint32_t bytes) { return static_cast<std::uint32_t>(std::bit_width(bytes)) - 8; }

}  // namespace

class LiveBench::AgentRegion final : public Region {
  public:
    AgentRegion(Agent& agent, std::uint64_t arena, std::size_t offset, std::size_t bytes,
                std::uint32_t access)
        : agent_(agent),
          arena_(arena),
          offset_(offset),
          bytes_(bytes),
          keys_(agent.register_memory(offset, bytes, access)) {}
    [[nodiscard]] std::uint64_t addr(std::size_t offset) const override { return arena_ + offset_ + offset; }
    [[nodiscard]] std::uint32_t key() const override { return keys_.rkey; }
    [[nodiscard]] std::uint32_t local_key() const override { return keys_.lkey; }
    [[nodiscard]] std::size_t size() const override { return bytes_; }
    [[nodiscard]] std::uint32_t index() const { return keys_.index; }
    void read(std::size_t offset, std::span<std::byte> to) override { agent_.get(offset_ + offset, to); }
    void write(std::size_t offset, std::span<const std::byte> from) override {
        agent_.put(offset_ + offset, from);
    }

  private:
    Agent& agent_;
    std::uint64_t arena_;
    std::size_t offset_;
    std::size_t bytes_;
    AgentKeys keys_;
};

LiveBench::LiveBench(WirePort& port, Agent& agent, const LivePath& path, std::uint32_t first_qp)
    : wire_(port, path, [this](std::uint32_t number) { return is_ours(number); }),
      agent_(agent),
      path_(path),
      peer_qp_(first_qp & 0xff'ffffU),
      last_peer_qp_(peer_qp_) {
    tolerance_ = LiveWire::tolerance();
}

LiveBench::~LiveBench() = default;

// The QP under test and those beside it.
bool LiveBench::is_ours(std::uint32_t number) const {
    return number == peer_qp_ || std::any_of(others_.begin(), others_.end(), [number](const OtherQp& other) {
               return other.peer_number == number;
           });
}

// --- The QP
// ---------------------------------------------------------------------------------------------------

void LiveBench::create(const ConnectOptions& connect, const QpOptions& qp, std::span<const std::byte> data) {
    wire_.check_limits(0);
    if (qp.pkeys != std::vector<std::uint16_t>{0xffff}) {
        throw CannotPlay("the P_Key table of a real device is not the tester's to write");
    }
    if (connect.mtu > facts_.mtu) {
        throw NotApplicable("path MTU " + std::to_string(connect.mtu) + " is more than the port's " +
                            std::to_string(facts_.mtu));
    }
    options_ = connect;
    regions_.clear();
    agent_.reset();
    wire_.forget_frames();
    if (arena_.address == 0) {
        arena_.address = agent_.arena(kArenaBytes);
    }
    agent_.fill(0, data.size(), kOwnSeed);
    regions_.push_back(
        std::make_unique<AgentRegion>(agent_, arena_.address, 0, kMemoryBytes, std::uint32_t{kAllAccess}));
    arena_.used = kMemoryBytes;
    others_.clear();
    wire_.take_second_address(false);
    type_ = qp.type;
    qp_ = agent_.create_qp(qp);
    srqs_.clear();
    while (type_ == QpType::kXrcRecv && srqs_.size() < kXrcSrqs) {
        srqs_.push_back(agent_.create_srq(qp_.index, qp));
    }
    peer_qp_ = next_peer_qp();
    init();
}

std::uint32_t LiveBench::next_peer_qp() {
    constexpr std::uint32_t kFirst = 2;  // QP0 and QP1 are management's
    last_peer_qp_ = std::max((last_peer_qp_ + 1) & 0x7f'ffffU, kFirst);
    return last_peer_qp_;
}

void LiveBench::must_modify(std::uint32_t qp, const std::string& attributes) {
    const int error = agent_.modify(qp, attributes);
    if (error != 0) {
        throw NotApplicable("the device refuses modify_qp(" + attributes + ") with errno " +
                            std::to_string(error));
    }
    wire_.set_clock_to_now();
}

void LiveBench::init() { make_init(qp_.index, type_); }
void LiveBench::rtr() { make_rtr(qp_.index, type_, peer_qp_, path_.own_gid); }
void LiveBench::rts() { make_rts(qp_.index, type_); }

void LiveBench::make_init(std::uint32_t qp, QpType type) {
    must_modify(qp, "state=1 pkey_index=0 port=- " + (type == QpType::kUd
                                                          ? attribute("qkey", options_.qkey)
                                                          : attribute("access", options_.access & 0xfU)));
}

void LiveBench::make_rtr(std::uint32_t qp, QpType type, std::uint32_t dest_qp, const Gid& peer) {
    if (type == QpType::kUd) {
        must_modify(qp, "state=2");
        return;
    }
    std::string text = "state=2 " + attribute("mtu", mtu_code(options_.mtu)) + " " +
                       attribute("dest_qp", dest_qp) + " " + attribute("rq_psn", options_.psn_b);
    if (type == QpType::kRc || type == QpType::kXrcRecv) {
        text += " " +
                attribute("max_dest_rd",
                          std::min<std::uint32_t>(options_.max_dest_rd_atomic, facts_.max_dest_rd_atomic)) +
                " " + attribute("min_rnr", options_.min_rnr_timer);
    }
    if (options_.traffic_class != 0) {
        text += " " + attribute("traffic_class", options_.traffic_class);
    }
    if (options_.sl != 0) {
        text += " " + attribute("sl", options_.sl);
    }
    must_modify(qp, text + " gid=" + gid_digits(peer));
}

void LiveBench::make_rts(std::uint32_t qp, QpType type) {
    std::string text = "state=3 " + attribute("sq_psn", options_.psn_a);
    if (type == QpType::kXrcRecv) {
        text += " " + attribute("timeout", options_.timeout);
    }
    if (type == QpType::kRc || type == QpType::kXrcSend) {
        text += " " + attribute("timeout", options_.timeout) + " " +
                attribute("retry_cnt", options_.retry_cnt) + " " +
                attribute("rnr_retry", options_.rnr_retry) + " " +
                attribute("max_rd", std::min<std::uint32_t>(options_.max_rd_atomic, facts_.max_rd_atomic));
    }
    must_modify(qp, text);
}

int LiveBench::modify(const abi::QpAttr& attr) {
    std::string text;
    const auto add = [&](std::uint32_t bit, const char* name, std::uint64_t value) {
        if ((attr.mask & bit) != 0) {
            text += (text.empty() ? "" : " ") + attribute(name, value);
        }
    };
    constexpr std::uint32_t kKnown = kQpAttrState | kQpAttrEnSqdAsyncNotify | kQpAttrTimeout |
                                     kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrMinRnrTimer | kQpAttrDestQpn |
                                     kQpAttrAccessFlags;
    if ((attr.mask & ~kKnown) != 0) {
        throw CannotPlay("modify_qp of an attribute that the agent does not know");
    }
    add(kQpAttrState, "state", static_cast<std::uint64_t>(attr.state));
    add(kQpAttrEnSqdAsyncNotify, "sqd_notify", attr.en_sqd_async_notify);
    add(kQpAttrTimeout, "timeout", attr.timeout);
    add(kQpAttrRetryCnt, "retry_cnt", attr.retry_cnt);
    add(kQpAttrRnrRetry, "rnr_retry", attr.rnr_retry);
    add(kQpAttrMinRnrTimer, "min_rnr", attr.min_rnr_timer);
    add(kQpAttrDestQpn, "dest_qp", attr.dest_qp_num);
    add(kQpAttrAccessFlags, "access", attr.access_flags & 0xfU);
    wire_.set_clock_to_now();
    return agent_.modify(qp_.index, text);
}

QpState LiveBench::state(QpState hoped) {
    const TimeNs end = wire_.real_now() + tolerance_.patience_ns;
    for (;;) {
        wire_.check_limits(0);
        const QpState state = agent_.query(qp_.index).state;
        if (state == hoped || wire_.real_now() > end) {
            return state;
        }
        wire_.collect(wire_.real_now() + kMs);
    }
}

Region& LiveBench::memory() { return *regions_.front(); }

Region& LiveBench::add_region(std::size_t bytes, std::uint32_t access) {
    const std::size_t offset = (arena_.used + kPage - 1) / kPage * kPage;
    if (offset + bytes > kArenaBytes - kScratchBytes) {
        throw CannotPlay("the case needs more memory than the agent has");
    }
    arena_.used = offset + bytes;
    const FrameBytes zeros(bytes);
    agent_.put(offset, zeros);
    regions_.push_back(std::make_unique<AgentRegion>(agent_, arena_.address, offset, bytes, access));
    return *regions_.back();
}

// --- Work
// -----------------------------------------------------------------------------------------------------

std::string LiveBench::request_text(const SendRequest& request) {
    if (request.opcode > WrOpcode::kSendWithInvalidate || request.opcode == WrOpcode::kBindMw) {
        throw CannotPlay("a request that the agent does not post yet");
    }
    const bool is_ud = type_ == QpType::kUd;
    std::string text = std::to_string(static_cast<unsigned>(request.opcode));
    for (const std::uint64_t value :
         {std::uint64_t{request.flags}, request.wr_id, std::uint64_t{request.imm_or_rkey},
          is_ud ? request.address_handle : request.remote_addr,
          std::uint64_t{is_ud ? request.remote_qp_num : request.rkey},
          is_ud ? request.remote_qkey : request.compare_add, request.swap}) {
        text += ":" + std::to_string(value);
    }
    text += type_ == QpType::kXrcSend ? ":" + std::to_string(request.srq_number) + ":-:-" : ":-:-:-";
    std::vector<abi::Sge> sges = request.sge;
    if (!request.inline_data.empty()) {
        const std::size_t offset = kArenaBytes - kScratchBytes;
        agent_.put(offset, request.inline_data);
        sges = {{arena_.address + offset, static_cast<std::uint32_t>(request.inline_data.size()), 0}};
    }
    for (const abi::Sge& sge : sges) {
        text += "," + std::to_string(sge.addr) + ":" + std::to_string(sge.length) + ":" +
                std::to_string(sge.lkey);
    }
    return text;
}

void LiveBench::post(const std::vector<SendRequest>& requests) {
    constexpr std::size_t kBatch = 64;
    for (std::size_t at = 0; at < requests.size(); at += kBatch) {
        std::vector<std::string> texts;
        for (std::size_t i = at; i < std::min(requests.size(), at + kBatch); ++i) {
            texts.push_back(request_text(requests[i]));
        }
        wire_.set_clock_to_now();
        if (const int error = agent_.send(qp_.index, texts); error != 0) {
            throw NotApplicable("ibv_post_send refuses the request with errno " + std::to_string(error));
        }
    }
}

void LiveBench::post_receive(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
    if (const int error = agent_.receive(qp_.index, wr_id, sge); error != 0) {
        throw NotApplicable("ibv_post_recv refuses the receive with errno " + std::to_string(error));
    }
}

std::uint32_t LiveBench::srq_number(std::size_t index) const {
    if (index >= srqs_.size()) {
        throw CannotPlay("only XRC targets have SRQs here");
    }
    return srqs_[index].number;
}

void LiveBench::post_srq_receive(std::size_t index, std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
    (void)srq_number(index);
    if (const int error = agent_.receive_by_srq(srqs_[index].index, wr_id, sge); error != 0) {
        throw NotApplicable("ibv_post_srq_recv refuses the receive with errno " + std::to_string(error));
    }
}

template <typename Item, typename Poll>
std::vector<Item> LiveBench::poll_until(std::size_t hoped, Poll&& poll) {
    const TimeNs begin = wire_.real_now();
    const TimeNs end = begin + (hoped == 0 ? tolerance_.settle_ns / 4 : tolerance_.patience_ns);
    std::vector<Item> items;
    for (;;) {
        wire_.check_limits(0);
        const std::vector<Item> more = poll();
        items.insert(items.end(), more.begin(), more.end());
        if ((hoped != 0 && items.size() >= hoped) || wire_.real_now() >= end) {
            return items;
        }
        wire_.collect(wire_.real_now() + kMs / 2);
    }
}

std::vector<SeenCompletion> LiveBench::completions(bool recv, std::size_t hoped) {
    return poll_until<SeenCompletion>(hoped, [&] { return agent_.poll(qp_.index, recv); });
}

std::vector<AsyncEventType> LiveBench::events(std::size_t hoped) {
    return poll_until<AsyncEventType>(hoped, [&] {
        std::vector<AsyncEventType> events = agent_.events();
        std::erase(events, AsyncEventType::kCommEst);
        std::erase(events, AsyncEventType::kCqErr);  // the QP's alone
        return events;
    });
}

// --- What only this engine has
// -----------------------------------------------------------------------------------

OtherQp LiveBench::add_qp(const Gid& peer) {
    const AgentQp made = agent_.create_qp({});
    const OtherQp other{made.number, next_peer_qp(), peer};
    others_.push_back(other);
    make_init(made.index, QpType::kRc);
    make_rtr(made.index, QpType::kRc, other.peer_number, peer);
    make_rts(made.index, QpType::kRc);
    return other;
}

OtherQp LiveBench::add_qp_of_second_address() {
    if (!path_.second_gid) {
        throw NotApplicable(
            "the tester's interface has one address on the device's network; give it a second one with `ip "
            "addr add`");
    }
    wire_.take_second_address(true);
    return add_qp(*path_.second_gid);
}

AgentWindow LiveBench::add_window() { return agent_.allocate_window(); }

void LiveBench::bind(std::uint64_t wr_id, const AgentWindow& window, std::uint32_t rkey, const Region& region,
                     std::size_t offset, std::uint64_t length, std::uint32_t access) {
    const std::uint32_t index = static_cast<const AgentRegion&>(region).index();
    std::string text = std::to_string(static_cast<unsigned>(WrOpcode::kBindMw));
    for (const std::uint64_t value :
         {std::uint64_t{kSendSignaled}, wr_id, std::uint64_t{0}, region.addr(offset), std::uint64_t{rkey},
          length, std::uint64_t{0}, std::uint64_t{window.index}, std::uint64_t{index},
          std::uint64_t{access}}) {
        text += ":" + std::to_string(value);
    }
    wire_.set_clock_to_now();
    if (const int error = agent_.send(qp_.index, {text}); error != 0) {
        throw NotApplicable("ibv_post_send refuses the bind with errno " + std::to_string(error));
    }
}

std::uint32_t LiveBench::add_address_handle(std::uint8_t traffic_class, std::uint8_t sl) {
    return agent_.make_address_handle(path_.own_gid, traffic_class, sl);
}

void LiveBench::forget() {
    wire_.forget_frames();
    (void)agent_.poll(qp_.index, false);
    (void)agent_.poll(qp_.index, true);
    (void)agent_.events();
    wire_.set_clock_to_now();
}

}  // namespace urnic::conform
