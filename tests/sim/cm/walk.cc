#include "tests/sim/cm/walk.h"

#include <algorithm>
#include <cstring>

namespace urnic::sim::cm {

namespace {

constexpr wire::Gid kGids[2] = {kOurGid, kPeerGid};
constexpr TimeNs kWalkNs = 60 * kSecond;
constexpr TimeNs kCalmNs = 600 * kSecond;
constexpr std::size_t kMostHandles = 40;

Impairments draw_impairments(std::mt19937_64& rng) {
    static constexpr Impairments kImpairments[] = {
        {.max_delay_ns = 10'000},
        {.loss = 0.05, .duplicate = 0.05, .max_delay_ns = kSecond / 100},
        {.loss = 0.3, .duplicate = 0.1, .max_delay_ns = kSecond / 10},
        {.loss = 0.1, .duplicate = 0.5, .max_delay_ns = kSecond, .is_impatient = true},
        {.loss = 0.3, .duplicate = 0.3, .max_delay_ns = kSecond, .is_impatient = true},
        {.loss = 0.5, .duplicate = 0.1, .max_delay_ns = kSecond / 10, .gives_up_soon = true},
        {.loss = 0.2,
         .duplicate = 0.2,
         .max_delay_ns = kSecond / 2,
         .is_impatient = true,
         .reuses_qps = true},
    };
    return kImpairments[rng() % std::size(kImpairments)];
}

std::array<std::uint8_t, 8> bytes_of(std::uint64_t token) {
    std::array<std::uint8_t, 8> bytes{};
    std::memcpy(bytes.data(), &token, bytes.size());
    return bytes;
}
std::uint64_t token_of(std::span<const std::uint8_t> private_data) {
    std::uint64_t token = 0;
    std::memcpy(&token, private_data.data(), sizeof token);
    return token;
}

bool ends(EventType type) {
    return type == EventType::kRejected || type == EventType::kUnreachable ||
           type == EventType::kDisconnectRequest || type == EventType::kDisconnected ||
           type == EventType::kDisconnectTimeout || type == EventType::kSidrReply ||
           type == EventType::kSidrUnreachable;
}

}  // namespace

Walk::Walk(std::uint64_t seed) : rng_(seed), impairments_(draw_impairments(rng_)) {
    for (int i = 0; i < 2; ++i) {
        hosts_[i] = std::make_unique<Host>(*this, i);
        Config config;
        config.ca_guid = 100 + static_cast<std::uint64_t>(i);
        config.seed = {rng_(), rng_()};
        config.max_remembered = 16 + static_cast<std::uint32_t>(random(4000));
        hosts_[i]->manager = std::make_unique<Manager>(config);
        ListenParams listen;
        listen.service_id = kPlainService;
        listen.allow_sidr = true;
        if (hosts_[i]->manager->listen(listen).status != Status::kOk) {
            wrong("listen() failed");
        }
    }
}

void Walk::wrong(const std::string& what) {
    if (wrong_.empty()) {
        wrong_ = "at " + std::to_string(now_) + " ns: " + what;
    }
}

// --- The network ------------------------------------------------------------------------------------------

void Walk::transmit(Host& from, const SendMad& mad) {
    if (std::getenv("TRACE")) {
        auto m = read_mad(mad);
        std::printf("%.6f host %d sends attr %x ids %08x %08x\n", double(now_) / 1e9, from.number,
                    m.header.attribute_id, __builtin_bswap32(*(unsigned*)&mad.bytes[24]),
                    __builtin_bswap32(*(unsigned*)&mad.bytes[28]));
    }  // TRACE
    const int to = mad.route.remote_gid == kGids[0] ? 0 : 1;
    if (mad.route.local_gid != kGids[from.number] || mad.route.remote_gid == mad.route.local_gid) {
        wrong("a message with strange addresses");
    }
    ReceivedMad received;
    received.src_gid = mad.route.local_gid;
    received.dst_gid = mad.route.remote_gid;
    received.pkey = 0xffff;
    received.src_qp = 1;
    received.bytes = mad.bytes;
    const int copies =
        is_calm_ ? 1 : (chance(impairments_.loss) ? 0 : 1) + (chance(impairments_.duplicate) ? 1 : 0);
    for (int i = 0; i < copies; ++i) {
        wire_.emplace(now_ + 1000 + (is_calm_ ? 0 : random(impairments_.max_delay_ns)),
                      std::pair{to, received});
    }
}

bool Walk::step(TimeNs until) {
    const TimeNs arrives = wire_.empty() ? kNever : wire_.begin()->first;
    const TimeNs fires = std::min(hosts_[0]->manager->next_event(), hosts_[1]->manager->next_event());
    const TimeNs next = std::min(arrives, fires);
    if (next > until) {
        now_ = until;
        return false;
    }
    now_ = std::max(now_, next);
    if (arrives <= fires) {
        const auto [to, mad] = wire_.begin()->second;
        wire_.erase(wire_.begin());
        hosts_[to]->manager->receive(mad, now_, *hosts_[to]);
    } else {
        for (const auto& host : hosts_) {
            host->manager->advance(now_, *host);
        }
    }
    for (const auto& host : hosts_) {
        std::vector<SeenEvent> news;
        news.swap(host->news);
        for (const SeenEvent& event : news) {
            act(*host, event);
        }
    }
    return true;
}

void Walk::run_until(TimeNs until) {
    while (wrong_.empty() && step(until)) {
    }
}

// --- The oracle -------------------------------------------------------------------------------------------

void Walk::heard(Host& host, const Event& event) {
    if (std::getenv("TRACE")) {
        std::printf("%.6f host %d event %d of %08x reason %d\n", double(now_) / 1e9, host.number,
                    (int)event.type, event.handle, event.reason);
    }  // TRACE
    check(host, event);
    host.news.push_back(copy_of(event));
}

void Walk::check(Host& host, const Event& event) {
    const bool is_new = event.type == EventType::kRequest || event.type == EventType::kSidrRequest;
    const auto found = host.handles.find(event.handle);
    const std::string name =
        "event " + std::to_string(static_cast<int>(event.type)) + " of " + std::to_string(event.handle);
    if (event.route.local_gid != kGids[host.number] || event.route.remote_gid != kGids[1 - host.number]) {
        wrong(name + " with strange addresses");
    }
    if (!is_new) {
        if (found == host.handles.end()) {
            wrong(name + " after destroy()");
            return;
        }
        check_known(found->second, event);
        return;
    }
    if (found != host.handles.end()) {
        wrong(name + ": the handle is in use");
        return;
    }
    Known known;
    known.state = Knows::kRequested;
    known.is_resolution = event.type == EventType::kSidrRequest;
    known.token = token_of(event.private_data);
    if (++requests_[known.token] > 1 && !impairments_.is_impatient) {
        wrong(name + ": a second request of one attempt");
    }
    host.handles[event.handle] = known;
}

void Walk::check_known(Known& known, const Event& event) {
    const std::string name =
        "event " + std::to_string(static_cast<int>(event.type)) + " of " + std::to_string(event.handle);
    if (!known.events.insert(event.type).second) {
        wrong(name + " for the second time");
    }
    if (known.has_exited || (known.state == Knows::kOver && event.type != EventType::kTimewaitExit)) {
        wrong(name + " after the end");
    }
    const auto in = [&known](std::initializer_list<Knows> states) {
        return std::find(states.begin(), states.end(), known.state) != states.end();
    };
    bool is_right = false;
    switch (event.type) {
        case EventType::kReply:
            is_right = in({Knows::kAsked}) && known.is_active && token_of(event.private_data) == known.token;
            known.state = Knows::kReplied;
            break;
        case EventType::kEstablished:
            is_right = in({Knows::kAccepted});
            known.state = Knows::kUp;
            break;
        case EventType::kRejected:
            is_right = in({Knows::kAsked, Knows::kRequested, Knows::kAccepted, Knows::kReplied, Knows::kUp});
            break;
        case EventType::kUnreachable:
            is_right = in({Knows::kAsked, Knows::kAccepted}) && !known.is_resolution;
            break;
        case EventType::kDisconnectRequest:
            is_right = in({Knows::kAccepted, Knows::kReplied, Knows::kUp});
            known.state = Knows::kAskedEnd;
            break;
        case EventType::kDisconnected:
        case EventType::kDisconnectTimeout:
            // A stale connection is ended by the manager.
            is_right = in({Knows::kEnding}) || (impairments_.reuses_qps && in({Knows::kUp}));
            break;
        case EventType::kTimewaitExit:
            is_right = in({Knows::kOver});
            known.has_exited = true;
            break;
        case EventType::kSidrReply:
        case EventType::kSidrUnreachable:
            is_right = in({Knows::kAsked}) && known.is_resolution;
            break;
        default:
            break;
    }
    if (!is_right) {
        wrong(name + " in state " + std::to_string(static_cast<int>(known.state)));
    }
    const bool is_stale = event.type == EventType::kRejected && event.message == nullptr;
    if (is_stale || event.type == EventType::kUnreachable || event.type == EventType::kDisconnectTimeout) {
        given_up_.insert(known.token);
    }
    if (ends(event.type) && event.type != EventType::kDisconnectRequest) {
        known.state = Knows::kOver;
    }
    seen_.rejected += event.type == EventType::kRejected ? 1 : 0;
    seen_.unreachable += event.type == EventType::kUnreachable ? 1 : 0;
    seen_.disconnected += event.type == EventType::kDisconnected ? 1 : 0;
    seen_.resolved += event.type == EventType::kSidrReply ? 1 : 0;
}

/// After the calm both owners know the same of each connection that both still have.
void Walk::check_agreement() {
    std::map<std::uint64_t, int> up;
    for (const auto& host : hosts_) {
        for (const auto& [handle, known] : host->handles) {
            if (known.state == Knows::kUp) {
                ++up[known.token];
                if (host->manager->info(handle)->state != State::kEstablished) {
                    wrong("the owner of " + std::to_string(handle) + " was not told of its end");
                }
            } else if (known.state != Knows::kOver) {
                wrong(std::to_string(handle) + " waits for ever in state " +
                      std::to_string(static_cast<int>(known.state)));
            }
        }
    }
    for (const auto& [token, sides] : up) {
        if (sides != 2 && !given_up_.contains(token)) {
            wrong("connection " + std::to_string(token) + " is up at one end alone");
        }
        ++seen_.established;
    }
}

void Walk::check_empty() {
    for (const auto& host : hosts_) {
        if (host->manager->size() != 0 || host->manager->half_open() != 0 ||
            host->manager->next_event() != kNever) {
            wrong("host " + std::to_string(host->number) + " has " + std::to_string(host->manager->size()) +
                  " records in the end");
        }
        seen_.duplicates += host->manager->stats().duplicates;
        seen_.retries += host->manager->stats().retries;
        seen_.stale += host->manager->stats().stale;
        if (host->manager->stats().malformed != 0) {
            wrong("malformed messages");
        }
    }
}

// --- The owners -------------------------------------------------------------------------------------------

std::uint32_t Walk::draw_qpn() {
    return impairments_.reuses_qps ? 2 + static_cast<std::uint32_t>(random(12)) : ++last_qpn_;
}

void Walk::destroy(Host& host, Handle handle) {
    if (std::getenv("TRACE")) {
        std::printf("%.6f host %d destroys %08x\n", double(now_) / 1e9, host.number, handle);
    }  // TRACE
    const auto found = host.handles.find(handle);
    if (found->second.state == Knows::kAccepted || impairments_.gives_up_soon) {
        given_up_.insert(found->second.token);
    }
    host.handles.erase(found);
    host.manager->destroy(handle, now_, host);
}

void Walk::ready(Host& host, Handle handle, Known& known) {
    known.state = Knows::kUp;
    if (host.manager->send_rtu(handle, {}, now_, host) != Status::kOk) {
        wrong("send_rtu() failed");
    }
}

void Walk::disconnect(Host& host, Handle handle, Known& known) {
    known.state = known.state == Knows::kAskedEnd ? Knows::kOver : Knows::kEnding;
    if (host.manager->disconnect(handle, {}, now_, host) != Status::kOk && !impairments_.reuses_qps) {
        wrong("disconnect() failed");
    }
}

void Walk::answer_request(Host& host, Handle handle, Known& known) {
    const auto token = bytes_of(known.token);
    if (known.is_resolution) {
        SidrRepParams answer;
        answer.qpn = 5;
        answer.private_data = token;
        known.state = Knows::kOver;
        if (host.manager->send_sidr_rep(handle, answer, now_, host) != Status::kOk) {
            wrong("send_sidr_rep() failed");
        }
        return;
    }
    if (!is_calm_ && chance(impairments_.is_impatient ? 0.4 : 0.1)) {
        known.state = Knows::kOver;
        if (host.manager->reject(handle, {}, now_, host) != Status::kOk) {
            wrong("reject() failed");
        }
        return;
    }
    known.qpn = draw_qpn();
    known.state = Knows::kAccepted;
    AcceptParams params;
    params.local_qpn = known.qpn;
    params.private_data = token;
    if (host.manager->accept(handle, params, now_, host) != Status::kOk) {
        wrong("accept() failed");
    }
}

void Walk::act(Host& host, const SeenEvent& event) {
    const auto found = host.handles.find(event.handle);
    if (found == host.handles.end()) {
        return;  // destroyed meanwhile
    }
    Known& known = found->second;
    if (!is_calm_ && chance(impairments_.is_impatient ? 0.3 : 0.02)) {
        destroy(host, event.handle);
        return;
    }
    const bool waits = !is_calm_ && chance(0.3);
    if (waits) {
        return;  // touch_something() or the calm comes to it
    }
    if (known.state == Knows::kRequested) {
        answer_request(host, event.handle, known);
    } else if (known.state == Knows::kReplied) {
        ready(host, event.handle, known);
    } else if (known.state == Knows::kAskedEnd) {
        disconnect(host, event.handle, known);
    }
}

void Walk::begin_something(Host& host) {
    if (host.handles.size() >= kMostHandles) {
        return;
    }
    Known known;
    known.is_active = true;
    known.token = ++last_token_;
    known.is_resolution = chance(0.2);
    const auto token = bytes_of(known.token);
    const auto retries = static_cast<std::uint8_t>(impairments_.gives_up_soon ? random(3) : 15);
    Manager::Opened opened;
    if (known.is_resolution) {
        SidrReqParams params;
        params.route.local_gid = kGids[host.number];
        params.route.remote_gid = kGids[1 - host.number];
        params.service_id = kPlainService;
        params.response_timeout = 18;
        params.max_cm_retries = retries;
        params.private_data = token;
        opened = host.manager->send_sidr_req(params, now_, host);
    } else {
        known.qpn = draw_qpn();
        ConnectParams params = {};
        params.route.local_gid = kGids[host.number];
        params.route.remote_gid = kGids[1 - host.number];
        params.service_id = kPlainService;
        params.transport = static_cast<Transport>(random(2));
        params.local_qpn = known.qpn;
        params.local_ack_timeout = 15;
        params.response_timeout = 18;
        params.max_cm_retries = retries;
        params.private_data = token;
        opened = host.manager->connect(params, now_, host);
    }
    if (opened.status != Status::kOk || host.handles.contains(opened.handle)) {
        wrong("connect() or send_sidr_req() failed, or gave a handle that is in use");
    }
    host.handles[opened.handle] = known;
}

void Walk::touch_something(Host& host) {
    if (host.handles.empty()) {
        return;
    }
    auto it = host.handles.begin();
    std::advance(it, random(host.handles.size()));
    const Handle handle = it->first;
    Known& known = it->second;
    if (chance(impairments_.is_impatient ? 0.4 : 0.05) || (known.state == Knows::kOver && chance(0.5))) {
        destroy(host, handle);
        return;
    }
    switch (known.state) {
        case Knows::kRequested:
            answer_request(host, handle, known);
            break;
        case Knows::kReplied:
            if (chance(0.2)) {
                known.state = Knows::kOver;
                if (host.manager->reject(handle, {}, now_, host) != Status::kOk) {
                    wrong("reject() of a REP failed");
                }
            } else {
                ready(host, handle, known);
            }
            break;
        case Knows::kUp:
        case Knows::kAskedEnd:
            disconnect(host, handle, known);
            break;
        default:
            break;
    }
}

std::string Walk::run() {
    const TimeNs end = now_ + kWalkNs;
    while (wrong_.empty() && now_ < end) {
        run_until(std::min(end, now_ + random(kSecond / 2)));
        Host& host = *hosts_[random(2)];
        chance(0.6) ? begin_something(host) : touch_something(host);
    }
    // Calm: owners answer what waits for them, everything arrives, retries and timewaits end.
    is_calm_ = true;
    for (const auto& host : hosts_) {
        std::vector<Handle> waiting;
        for (const auto& [handle, known] : host->handles) {
            waiting.push_back(handle);
        }
        for (const Handle handle : waiting) {
            SeenEvent again;
            again.handle = handle;
            act(*host, again);
        }
    }
    run_until(now_ + kCalmNs);
    check_agreement();
    for (const auto& host : hosts_) {
        while (!host->handles.empty()) {
            destroy(*host, host->handles.begin()->first);
        }
    }
    run_until(now_ + kCalmNs);
    check_empty();
    return wrong_;
}

}  // namespace urnic::sim::cm
