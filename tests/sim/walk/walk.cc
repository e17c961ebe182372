#include "tests/sim/walk/walk.h"

#include <algorithm>

#include "base/check.h"

namespace urnic::sim {

namespace {

constexpr std::size_t kSourceBytes = 4U << 20U;

// What all messages are made of: the same for every walk, and never written to again.
std::span<std::byte> source_bytes() {
    static const RingMemory memory = [] {
        RingMemory made = zeroed_memory(kSourceBytes);
        Random random(1);
        auto* words = reinterpret_cast<std::uint64_t*>(made.get());
        std::generate(words, words + kSourceBytes / sizeof(std::uint64_t),
                      [&random] { return random.next(); });
        return made;
    }();
    return {memory.get(), kSourceBytes};
}

}  // namespace

void WalkStats::add(const WalkStats& other) {
    oracle.add(other.oracle);
    trouble.add(other.trouble);
    links.add(other.links);
    packets += other.packets;
    retries += other.retries;
    connections += other.connections;
    events += other.events;
}

// Two endpoints and the life of what joins them: open, closing, waiting until nothing of it is on the way any
// more, open again.
class Walk::Connection final : public Agent {
  public:
    Connection(Walk& walk, WalkDevice& a, WalkDevice& b, const std::string& name)
        : walk_(walk), a_(walk.shared_, a, 0, name + "a"), b_(walk.shared_, b, 1, name + "b") {
        a_.set_peer(b_);
        b_.set_peer(a_);
        walk.shared_.endpoints.push_back(&a_);
        walk.shared_.endpoints.push_back(&b_);
    }

    void open();
    void wake(TimeNs now, std::uint64_t token) override;
    void check_end();

    [[nodiscard]] bool finished() const {
        return state_ == State::kGone ||
               (state_ == State::kOpen && a_.drained() && b_.drained() && !broken());
    }
    [[nodiscard]] std::uint64_t opened() const { return opened_; }
    void add_stats(OracleStats& stats) {
        stats.add(a_.incoming().stats());
        stats.add(b_.incoming().stats());
    }

  private:
    enum class State : std::uint8_t { kOpen, kClosing, kWaiting, kGone };
    // Tokens of wake(); 0 and 1 are the ends.
    static constexpr std::uint64_t kLeftTheNetwork = 2;
    static constexpr std::uint64_t kReopen = 3;

    [[nodiscard]] bool broken() const { return a_.is_broken() || b_.is_broken(); }
    [[nodiscard]] ConnectionOptions draw_options();
    void schedule(std::uint64_t token, bool busy);
    void settle();
    void reopen();

    Walk& walk_;
    Endpoint a_;
    Endpoint b_;
    State state_ = State::kWaiting;
    std::uint64_t opened_ = 0;
    std::array<TimeNs, 2> pause_{};
    std::array<std::uint64_t, 2> last_frame_{};  // of each device, that may be of the connection before
};

ConnectionOptions Walk::Connection::draw_options() {
    Random& random = walk_.shared_.random;
    const WalkPlan& plan = walk_.plan_;
    const auto number = [&random](std::uint64_t least, std::uint64_t most) {
        return static_cast<std::uint8_t>(random.between(least, most));
    };
    const bool is_storm = !plan.retries_suffice();
    ConnectionOptions options;
    options.path_mtu = number(1, 5);
    options.timeout = plan.impairments == Impairments::kClear ? 14 : number(9, 12);
    options.retry_cnt = is_storm ? number(0, 7) : 7;
    options.rnr_retry = is_storm && random.chance(300) ? number(0, 6) : 7;
    options.min_rnr_timer = number(1, 8);
    for (std::size_t side = 0; side < 2; ++side) {
        options.psn[side] =
            static_cast<std::uint32_t>(random.chance(500) ? 0xff'ff00 + random.below(0x100) : random.next()) &
            Psn::kMask;
        options.max_rd_atomic[side] = random.chance(300) ? 1 : number(0, 16);
        const std::uint32_t least = 16;
        const std::uint32_t most = std::min(plan.max_message_bytes, plan.receive_bytes / 2);
        options.receive_bytes[side] =
            random.chance(300) ? most : std::max<std::uint32_t>(least, most >> random.below(6));
        options.receive_entries[side] =
            std::min<std::uint32_t>(1U << random.below(7), plan.receive_bytes / options.receive_bytes[side]);
        options.rts_at[side] = random.chance(300) ? walk_.network_.now() + random.below(100'000) : 0;
    }
    return options;
}

void Walk::Connection::open() {
    ++opened_;
    state_ = State::kOpen;
    const ConnectionOptions options = draw_options();
    a_.prepare();
    b_.prepare();
    a_.open(options);
    b_.open(options);
    for (std::uint64_t side = 0; side < 2; ++side) {
        pause_[side] = walk_.plan_.pause_ns;
        schedule(side, true);
    }
}

// Moments come less often while nothing happens.
void Walk::Connection::schedule(std::uint64_t token, bool busy) {
    constexpr TimeNs kLongestPause = 100'000;
    TimeNs& pause = pause_[token];
    pause = busy ? walk_.plan_.pause_ns : std::min<TimeNs>(pause * 3 / 2, kLongestPause);
    walk_.network_.wake_at(walk_.network_.now() + 1 + walk_.shared_.random.below(pause), *this, token);
}

void Walk::Connection::wake(TimeNs now, std::uint64_t token) {
    if (walk_.stopping_ || state_ == State::kGone) {
        return;
    }
    if (token == kLeftTheNetwork) {
        last_frame_ = {a_.device().frames_received(), b_.device().frames_received()};
    }
    if (token >= kLeftTheNetwork) {
        reopen();
        return;
    }
    Endpoint& end = token == 0 ? a_ : b_;
    if (state_ == State::kOpen && !broken()) {
        schedule(token, end.act());
        Random& random = walk_.shared_.random;
        if (random.chance(walk_.plan_.outage_per_mille)) {
            const DirectionId uplink = walk_.uplinks_[random.below(walk_.uplinks_.size())];
            walk_.network_.cut(uplink, now + random.below(20'000'000));
        }
        return;
    }
    state_ = State::kClosing;
    const bool closed = end.close();
    Endpoint& other = token == 0 ? b_ : a_;
    if (!closed) {
        schedule(token, true);
        return;
    }
    if (other.is_closed()) {
        settle();
    }
}

// No QP takes packets now. Those on the way are dropped before the QPs are used again: they could be taken
// for packets of the next connection.
void Walk::Connection::settle() {
    for (Endpoint* end : {&a_, &b_}) {
        end->settle();
    }
    state_ = State::kWaiting;
    const TimeNs life = walk_.network_.longest_life() + walk_.shared_.random.below(10'000);
    walk_.network_.wake_at(walk_.network_.now() + life, *this, kLeftTheNetwork);
}

void Walk::Connection::reopen() {
    constexpr TimeNs kLittle = 10'000;
    if (walk_.shared_.messages_left == 0) {
        state_ = State::kGone;
    } else if (a_.device().frames_taken() < last_frame_[0] || b_.device().frames_taken() < last_frame_[1]) {
        walk_.network_.wake_at(walk_.network_.now() + kLittle, *this, kReopen);
    } else {
        open();
    }
}

void Walk::Connection::check_end() {
    if (state_ == State::kOpen) {
        a_.check_end();
        b_.check_end();
    }
}

Walk::Walk(const WalkPlan& plan, PacketLog* log, QpWatcher* watcher)
    : plan_(plan),
      watcher_(watcher),
      network_(plan.seed),
      shared_{plan_, network_, Random(plan.seed ^ 0x5a1f'0000'0000'0003ULL), plan.messages, {}, {}} {
    network_.log = log;
    build_network();
    build_connections();
}

Walk::~Walk() = default;

void Walk::build_network() {
    Random& random = shared_.random;
    for (std::uint32_t i = 0; i < plan_.devices; ++i) {
        SimDevice::Options options;
        options.name = std::string(1, static_cast<char>('A' + i));
        options.number = i + 1;
        options.is_ipv6 = plan_.is_ipv6;
        options.vlan_tci = plan_.vlan_tci;
        options.poll_ns = random.between(1, 3'000);
        options.burst_frames = static_cast<std::uint32_t>(random.between(1, 64));
        options.packets_per_progress = static_cast<std::uint32_t>(random.between(1, 64));
        // Half of the devices hold packets that come early, some of those only a few.
        options.held_frames = random.chance(500) ? 0 : random.chance(300) ? 40 : 100'000;
        // And some answer READs as Linux rxe does.
        options.keeps_last_asked = random.chance(300);
        options.rx_ring_frames = plan_.impairments == Impairments::kClear ? ~0U : 2'048;
        devices_.push_back(
            std::make_unique<WalkDevice>(network_, options, random.next(), plan_, source_bytes()));
        devices_.back()->device.listener = this;
        devices_.back()->device.watcher = watcher_;
    }
    const auto join = [this](NetworkNode& a, NetworkNode& b, const std::string& a_name,
                             const std::string& b_name) {
        return network_.connect(a, b, a_name, b_name, plan_.link, plan_.link);
    };
    if (!plan_.has_switch) {
        SimDevice& a = devices_[0]->device;
        SimDevice& b = devices_[1]->device;
        const auto ends = join(a, b, a.name(), b.name());
        a.attach(ends.a_to_b);
        b.attach(ends.b_to_a);
        uplinks_ = {ends.a_to_b, ends.b_to_a};
        return;
    }
    switch_ = std::make_unique<Switch>(network_);
    for (const auto& each : devices_) {
        SimDevice& device = each->device;
        const auto ends = join(device, *switch_, device.name(), "switch");
        device.attach(ends.a_to_b);
        switch_->add_port(device.mac(), ends.a_to_b, ends.b_to_a);
        uplinks_.push_back(ends.a_to_b);
    }
}

void Walk::build_connections() {
    Random& random = shared_.random;
    for (std::uint32_t i = 0; i < plan_.connections; ++i) {
        const std::uint64_t a = random.below(devices_.size());
        const std::uint64_t b = (a + random.between(1, devices_.size() - 1)) % devices_.size();
        const std::string name = "connection " + std::to_string(i) + " end ";
        connections_.push_back(std::make_unique<Connection>(*this, *devices_[a], *devices_[b], name));
    }
}

void Walk::fail(const std::string& what) {
    if (shared_.failure.empty()) {
        shared_.failure = "at " + std::to_string(network_.now()) + " ns: " + what;
    }
}

bool Walk::finished() const {
    return shared_.messages_left == 0 && std::all_of(connections_.begin(), connections_.end(),
                                                     [](const auto& each) { return each->finished(); });
}

std::string Walk::run() {
    for (const auto& each : connections_) {
        each->open();
    }
    constexpr std::uint64_t kMostAtOneTime = 1'000'000;
    std::uint64_t at_one_time = 0;
    TimeNs before = network_.now();
    while (shared_.failure.empty() && (events_ % 64 != 0 || !finished())) {
        if (!network_.step()) {
            if (!finished()) {
                fail("nothing happens any more, and not everything is done");
            }
            break;
        }
        ++events_;
        at_one_time = network_.now() == before ? at_one_time + 1 : 0;
        before = network_.now();
        if (at_one_time == kMostAtOneTime) {
            fail("time stands still");
        }
    }
    if (shared_.failure.empty()) {
        come_to_rest();
    }
    if (shared_.failure.empty()) {
        check_end();
    }
    if (network_.log != nullptr) {
        network_.log->flush();
    }
    return shared_.failure;
}

// Applications do nothing more: packets, timers and memory of the RNICs come to rest too.
void Walk::come_to_rest() {
    stopping_ = true;
    constexpr TimeNs kLongest = 2'000'000'000;
    const TimeNs end = network_.now() + network_.longest_life() + kLongest;
    while (network_.step(end)) {
        ++events_;
    }
    if (!network_.idle()) {
        fail("everything completed, and packets are still sent");
    }
    if (network_.frames_in_use() != 0) {
        fail(std::to_string(network_.frames_in_use()) + " frame buffers are lost");
    }
    for (const auto& each : devices_) {
        if (!each->device.idle()) {
            fail("device " + each->device.name() + " still wants to do something");
        }
    }
}

void Walk::check_end() {
    for (const auto& each : connections_) {
        each->check_end();
    }
    for (const auto& each : devices_) {
        const SharedCounter& counter = each->counter;
        if (*counter.word < counter.confirmed || *counter.word > counter.confirmed + counter.uncertain) {
            fail("the shared counter of device " + each->device.name() + " stands at " +
                 std::to_string(*counter.word) + " after " + std::to_string(counter.confirmed) +
                 " additions and " + std::to_string(counter.uncertain) + " uncertain ones");
        }
    }
    // A network that harms nothing needs no retry; a connection that was broken on purpose does.
    const WalkStats all = stats();
    if (plan_.impairments == Impairments::kClear && all.connections == plan_.connections &&
        all.retries != 0) {
        fail(std::to_string(all.retries) + " retries over links that lose nothing");
    }
}

WalkStats Walk::stats() const {
    WalkStats stats;
    stats.events = events_;
    stats.trouble = shared_.trouble;
    stats.links = network_.total();
    for (const auto& each : devices_) {
        stats.retries += each->device.counters.completer_retry_err.value();
    }
    for (const DirectionId uplink : uplinks_) {
        stats.packets += network_.counters(uplink).frames;
    }
    for (const auto& each : connections_) {
        each->add_stats(stats.oracle);
        stats.connections += each->opened();
    }
    return stats;
}

void Walk::completed(std::uint32_t qp_num, const Completion& completion, bool is_lost) {
    Endpoint* end = shared_.find(qp_num);
    if (end == nullptr) {
        fail("a completion for QP " + std::to_string(qp_num) + ", which does not exist");
        return;
    }
    if (watcher_ != nullptr && !is_lost) {
        watcher_->completed(network_.now(), end->device().name(), end->qp()->qp(), completion);
    }
    end->completed(completion, is_lost);
}

void Walk::raised(std::uint32_t qp_num, AsyncEventType type) {
    Endpoint* end = shared_.find(qp_num);
    if (end == nullptr) {
        fail("an event of QP " + std::to_string(qp_num) + ", which does not exist");
        return;
    }
    end->raised(type);
}

}  // namespace urnic::sim
