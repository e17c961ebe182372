#include "conform/cm/passive_bench.h"

#include <algorithm>

#include "conform/case/script.h"
#include "rnic/cm/messages.h"

namespace urnic::conform {

namespace {

constexpr TimeNs kEachWaitNs = 1'000'000'000;

std::uint32_t id_of(const HeardMessage& request) { return PassiveCmBench::req_of(request).local_comm_id; }

}  // namespace

void PassiveCmBench::begin_case(TimeNs limit_ns) {
    end_case();
    sort_all();
    for (const HeardMessage& request : requests_) {
        send_away(request, 0);
    }
    requests_.clear();
    clients_.clear();
    qps_.clear();
    request_ = {};
    asked_ = {};
    reply_ = {};
    CmBench::begin_case(limit_ns);
}

void PassiveCmBench::end_case() {
    await_client();
    for (auto& [id, client] : clients_) {
        if (is_waiting(client)) {
            send_away(client.request, client.own_id);
            close(client.own_id);
        }
    }
    CmBench::end_case();
    clients_.clear();
}

void PassiveCmBench::await_client() {
    constexpr TimeNs kMostNs = 2'000'000'000;
    const bool is_connected = std::any_of(clients_.begin(), clients_.end(), [this](const auto& each) {
        return each.second.own_id != 0 && is_open(each.second.own_id) && is_confirmed(each.second.own_id);
    });
    const TimeNs end = real_now() + kMostNs;
    while (is_connected && !has_qp_sent() && sort_next(end)) {
    }
}

bool PassiveCmBench::is_ours(std::uint32_t number) const {
    return number == wire::kQp1 || qps_.count(number) != 0;
}

// One that has sent no RTU waits for the end of its attempt.
bool PassiveCmBench::is_waiting(const Client& client) const {
    return client.own_id == 0 || !is_confirmed(client.own_id);
}

void PassiveCmBench::send_away(const HeardMessage& request, std::uint32_t own_id) {
    wire::cm::Rej rej;
    rej.local_comm_id = own_id;
    rej.remote_comm_id = id_of(request);
    rej.message_rejected = cm::kAboutReq;
    rej.reason = cm::kRejConsumer;
    tell_back(request, rej);
}

void PassiveCmBench::take_request(const HeardMessage& heard) {
    if (req_of(heard).service_id == service_id()) {
        requests_.push_back(heard);
    }
}

HeardMessage PassiveCmBench::hear_request() {
    constexpr TimeNs kMostNs = 30'000'000'000;
    const TimeNs end = real_now() + kMostNs;
    while (real_now() < end) {
        const auto found =
            std::find_if(requests_.begin(), requests_.end(),
                         [this](const HeardMessage& heard) { return clients_.count(id_of(heard)) == 0; });
        if (found != requests_.end()) {
            HeardMessage heard = std::move(*found);
            requests_.erase(found);
            clients_[id_of(heard)] = {heard, 0};
            return heard;
        }
        (void)sort_next(real_now() + kEachWaitNs);
    }
    throw BenchFailed("no client has asked for a connection for 30 s");
}

std::optional<HeardMessage> PassiveCmBench::hear_again(const HeardMessage& request, TimeNs until) {
    for (;;) {
        const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const HeardMessage& heard) {
            return id_of(heard) == id_of(request);
        });
        if (found != requests_.end()) {
            HeardMessage heard = std::move(*found);
            requests_.erase(found);
            return heard;
        }
        if (!sort_next(until)) {
            return {};
        }
    }
}

wire::cm::Rep PassiveCmBench::reply_to(const HeardMessage& request) {
    constexpr std::uint32_t kFirstPsn = 1000;
    const wire::cm::Req req = req_of(request);
    wire::cm::Rep rep;
    rep.local_comm_id = open(req.local_comm_id, req.local_qpn);
    rep.remote_comm_id = req.local_comm_id;
    rep.local_qpn = last_qp();
    qps_.insert(last_qp());
    rep.starting_psn = kFirstPsn;
    // As few READs on either side as the client can have.
    rep.responder_resources = std::min<std::uint8_t>(req.initiator_depth, 1);
    rep.initiator_depth = std::min<std::uint8_t>(req.responder_resources, 1);
    rep.failover_accepted = 1;  // there are no alternate paths
    rep.end_to_end_flow_control = true;
    rep.rnr_retry_count = 7;
    rep.local_ca_guid = guid();
    clients_[req.local_comm_id] = {request, rep.local_comm_id};
    return rep;
}

void PassiveCmBench::tell_back(const HeardMessage& request, const wire::cm::Message& message) {
    std::visit([&](const auto& one) { tell(datagram(cm::build_mad(one, request.header.transaction_id))); },
               message);
}

void PassiveCmBench::create(const ConnectOptions& /*connect*/, const QpOptions& /*qp*/,
                            std::span<const std::byte> /*data*/) {
    end_case();
    request_ = hear_request();
    asked_ = req_of(request_);
    reply_ = reply_to(request_);
    forget_frames();
    tell_back(request_, reply_);
}

void PassiveCmBench::rts() {
    const std::optional<HeardMessage> heard = hear_new(reply_.local_comm_id, real_now() + kPatienceNs);
    if (!heard || !std::holds_alternative<wire::cm::Rtu>(heard->message)) {
        throw StepFailed("expected RTU for the tester's REP\n  seen " +
                         (heard ? message_name(heard->message) : "none"));
    }
}

}  // namespace urnic::conform
