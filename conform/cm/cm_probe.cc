#include "conform/cm/cm_probe.h"

#include <iomanip>
#include <sstream>

#include "conform/cm/cm_script.h"
#include "conform/cm/passive_script.h"

namespace urnic::conform {

namespace {

constexpr TimeNs kProbeLimitNs = 20'000'000'000;

std::string guid_text(std::uint64_t guid) {
    std::ostringstream text;
    constexpr int kDigits = 16;
    text << std::hex << std::setw(kDigits) << std::setfill('0') << guid;
    return text.str();
}

class Connected final : public CmScript {
  public:
    explicit Connected(std::uint16_t port) : port_(port) {}
    std::map<std::string, std::string> facts;

  private:
    void body() override;
    void look_for_listener();
    std::uint16_t port_;
};

void Connected::look_for_listener() {
    const msg::Req req = request();
    tells(req);
    const std::optional<HeardMessage> heard =
        cm().hear_new(req.local_comm_id, cm().real_now() + CmBench::kPatienceNs);
    if (!heard) {
        throw BenchFailed("no connection manager answers there: is the device on the network of this port?");
    }
    const auto* rej = std::get_if<msg::Rej>(&heard->message);
    if (rej != nullptr && rej->reason == cm::kRejInvalidServiceId) {
        throw BenchFailed("nothing listens at port " + std::to_string(port_) +
                          " (REJ reason 8); start `rping -s -P` there, or name the port of another program "
                          "with --cm-port");
    }
    const msg::Rep rep = kind_of<msg::Rep>(*heard);
    tells(rtu(req, rep));
}

void Connected::body() {
    look_for_listener();
    connect();
    is_alive(0, 1);
    facts["max_rd"] = std::to_string(cm().rep().responder_resources);
    facts["ca_guid"] = guid_text(cm().rep().local_ca_guid);
}

class EarlyWrite final : public CmScript {
  public:
    bool is_kept = false;

  private:
    void body() override {
        connect();
        peer(unasked(write_of_nothing(1)));
        sends(sequence_nak(psn(), 0).any_msn());
        peer(write_of_nothing(0));
        const Tolerance& tolerance = bench().tolerance();
        while (const SeenFrame* frame = bench().next(now() + 5 * tolerance.settle_ns)) {
            is_kept = is_kept || frame_header(frame->bytes).psn.value() == psn(1);
            (void)bench().take();
        }
    }
};

class ClientConnected final : public PassiveScript {
  public:
    std::map<std::string, std::string> facts;

  private:
    void body() override {
        connect();
        facts["max_rd"] = std::to_string(tester().asked().responder_resources);
        facts["ca_guid"] = guid_text(tester().asked().local_ca_guid);
        ignore_the_rest();
    }
};

}  // namespace

std::map<std::string, std::string> prove_listener(CmBench& bench, std::uint16_t port) {
    constexpr int kTries = 3;
    std::string why;
    for (int i = 0; i < kTries; ++i) {
        Connected script(port);
        bench.begin_case(kProbeLimitNs);
        try {
            script.play(bench);
            bench.end_case();
            return script.facts;
        } catch (const StepFailed& failure) {
            why = failure.what();
        }
    }
    throw BenchFailed("the first connection to the listener fails\n" + why);
}

bool listener_keeps_early_packets(CmBench& bench) {
    EarlyWrite script;
    bench.begin_case(kProbeLimitNs);
    try {
        script.play(bench);
    } catch (const StepFailed&) {
        return false;  // the case about gaps will say what is wrong
    }
    return script.is_kept;
}

std::map<std::string, std::string> prove_client(PassiveCmBench& bench, std::uint16_t port) {
    constexpr int kTries = 3;
    constexpr TimeNs kLimitNs = 60'000'000'000;
    std::string why;
    for (int i = 0; i < kTries; ++i) {
        ClientConnected script;
        bench.begin_case(kLimitNs);
        try {
            script.play(bench);
            bench.end_case();
            return script.facts;
        } catch (const BenchFailed& failure) {
            throw BenchFailed(
                std::string(failure.what()) +
                "; on the device's host, start a client that connects to port " + std::to_string(port) +
                " of this one again and again: while :; do rping -c -C 1 -a ADDRESS; sleep 0.1; done");
        } catch (const StepFailed& failure) {
            why = failure.what();
        }
    }
    throw BenchFailed("the first connection of a client fails\n" + why);
}

}  // namespace urnic::conform
