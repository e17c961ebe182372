#include "conform/live/probe.h"

#include "conform/case/script.h"

namespace urnic::conform {

namespace {

constexpr TimeNs kProbeLimitNs = 20'000'000'000;

class Exchange final : public Script {
    void body() override {
        connect({.mtu = 256});
        peer(write_only(2000, 8));
        sends(ack(2000, 1).any_credits());
        post(write(1, 8));
        sends(write_only(1000, 8));
        peer(ack(1000, 1));
        completes(ok(1));
    }
};

class EarlyPacket final : public Script {
  public:
    bool is_kept = false;

  private:
    void body() override {
        connect({.mtu = 256});
        peer(write_only(2001, 8, 64).ackreq(false));
        sends(sequence_nak(2000, 0).any_msn());
        peer(write_only(2000, 8));
        const Tolerance& tolerance = bench().tolerance();
        while (const SeenFrame* frame = bench().next(now() + 5 * tolerance.settle_ns)) {
            is_kept = is_kept || frame_header(frame->bytes).psn.value() == 2001;
            (void)bench().take();
        }
    }
};

}  // namespace

void prove_transport(LiveBench& bench) {
    constexpr int kTries = 3;
    std::string why;
    for (int i = 0; i < kTries; ++i) {
        Exchange exchange;
        bench.begin_case(kProbeLimitNs);
        try {
            exchange.play(bench);
            return;
        } catch (const StepFailed& failure) {
            why = failure.what();
        }
    }
    throw BenchFailed(
        "the first exchange with the device fails: is it on the network of this port, and reaches it this "
        "address?\n" +
        why);
}

bool keeps_early_packets(LiveBench& bench) {
    EarlyPacket script;
    bench.begin_case(kProbeLimitNs);
    try {
        script.play(bench);
    } catch (const StepFailed&) {
        return false;  // the cases about gaps will say what is wrong
    }
    return script.is_kept;
}

}  // namespace urnic::conform
