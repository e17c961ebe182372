// Goodput of one QP over a lossy link in virtual time, as a ratio to the lossless run: what loss recovery is
// worth.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/check.h"
#include "os/command_line.h"
#include "tests/sim/sim_device.h"

namespace urnic::recovery {
namespace {

// Preamble, start of frame, FCS and gap between frames.
constexpr std::uint32_t kEthernetOverheadBytes = 24;
/// Frames that a RNIC has given to its link and that are not on it yet.
constexpr std::uint32_t kTxQueueFrames = 64;
/// How many frames of full length go by at most before one that is overtaken.
constexpr std::uint32_t kOvertakers = 10;
/// The smallest share of frames that can be told.
constexpr std::uint32_t kChancesOf = 1'000'000;

struct Options {
    double gbit_per_s = 100;
    TimeNs delay_ns = 2'000;
    double overtaken = 0;  // share of the frames, in each direction
    std::uint32_t mtu_bytes = 4096;
    std::uint32_t message_bytes = 65536;
    std::uint32_t depth = 128;  // of WRITEs; READs are bounded by max_rd_atomic
    std::uint32_t messages = 4000;
    std::uint32_t seeds = 9;
    std::uint8_t timeout = 14;
};

/// Who holds packets that come early.
struct Way {
    const char* name;
    bool requester;
    bool responder;
};

constexpr std::array<Way, 4> kWays = {{{"go-back-N", false, false},
                                       {"held, both ends", true, true},
                                       {"held, peer discards", true, false},
                                       {"go-back-N, peer holds", false, true}}};
constexpr std::uint32_t kMaxDepth = 256;
constexpr std::uint32_t kMaxMessageBytes = 1U << 20U;
constexpr std::array<double, 5> kLosses = {0, 0.0001, 0.001, 0.01, 0.05};

struct Result {
    double gbit_per_s = 0;
    double resent = 0;  // share of the requests sent
    std::uint64_t timeouts = 0;
};

sim::LinkOptions link_options(const Options& options, double loss) {
    sim::LinkOptions link;
    link.delay_ns = options.delay_ns;
    link.rate_mbit = static_cast<std::uint32_t>(std::lround(options.gbit_per_s * 1'000));
    link.queue_bytes = kTxQueueFrames * wire::kMaxFrameBytes;
    link.gap_bytes = kEthernetOverheadBytes;
    link.chances_of = kChancesOf;
    link.loss = static_cast<std::uint32_t>(std::lround(loss * kChancesOf));
    link.reorder = static_cast<std::uint32_t>(std::lround(options.overtaken * kChancesOf));
    const double late_bits = 8.0 * kOvertakers * (options.mtu_bytes + kEthernetOverheadBytes);
    link.reorder_ns = static_cast<TimeNs>(late_bits / options.gbit_per_s);
    return link;
}

sim::SimDevice::Options device_options(std::uint32_t number, bool holds_early_packets) {
    return {.name = number == 1 ? "A" : "B",
            .number = number,
            .poll_ns = 1,
            .rx_ring_frames = ~0U,
            .packets_per_progress = kTxQueueFrames,
            .held_frames = holds_early_packets ? ~0U : 0};
}

sim::SimQp& create_qp(sim::SimDevice& device, const sim::SimDevice& peer) {
    return device.create_qp({.send_entries = kMaxDepth,
                             .cq_entries = kMaxDepth,
                             .max_sge = 1,
                             .max_inline = 0,
                             .path = wire::PathSpec{.src_mac = device.mac(),
                                                    .dst_mac = peer.mac(),
                                                    .src_gid = device.gid(),
                                                    .dst_gid = peer.gid()}});
}

/// Messages without a pause; what is still on its way at the end does not count.
Result run(const Options& options, WrOpcode opcode, const Way& way, double loss, std::uint64_t seed) {
    sim::Network network(seed);
    sim::SimDevice requester(network, device_options(1, way.requester), 0);
    sim::SimDevice responder(network, device_options(2, way.responder), 0);
    const sim::LinkOptions link = link_options(options, loss);
    const auto ends = network.connect(requester, responder, requester.name(), responder.name(), link, link);
    requester.attach(ends.a_to_b);
    responder.attach(ends.b_to_a);
    sim::SimQp& a = create_qp(requester, responder);
    sim::SimQp& b = create_qp(responder, requester);
    sim::SimRegion& local = a.add_region(kMaxMessageBytes);
    sim::SimRegion& remote = b.add_region(kMaxMessageBytes);
    sim::connect(a, b, {.mtu = options.mtu_bytes, .psn_a = 0, .psn_b = 0, .timeout = options.timeout});
    const sim::SendRequest request{.opcode = opcode,
                                   .sge = {local.sge(0, options.message_bytes)},
                                   .remote_addr = remote.addr(),
                                   .rkey = remote.key()};
    std::uint32_t posted = 0;
    std::uint32_t completed = 0;
    while (completed < options.messages) {
        for (; posted - completed < options.depth; ++posted) {
            a.post_send(request);
            requester.ring(a);
        }
        URNIC_CHECK(network.step());
        for (const sim::Done& done : a.poll_send()) {
            URNIC_CHECK(done.status == WcStatus::kSuccess);
            ++completed;
        }
    }
    const double bits = 8.0 * completed * options.message_bytes;
    const double packets =
        static_cast<double>(completed) *
        (opcode == WrOpcode::kRead ? 1 : (options.message_bytes - 1) / options.mtu_bytes + 1);
    return {bits / static_cast<double>(network.now()),
            static_cast<double>(requester.counters.retrans_pkts.value()) / packets,
            requester.counters.local_ack_timeout_err.value()};
}

void measure(const Options& options, WrOpcode opcode, const char* verb) {
    fmt::print(
        "\n| {} of {} KB | loss | goodput, median | worst..best | of lossless | sent again | timeouts |\n",
        verb, options.message_bytes / 1024);
    fmt::print("|---|---|---|---|---|---|---|\n");
    for (const Way& way : kWays) {
        double lossless = 0;
        for (const double loss : kLosses) {
            std::vector<Result> results;
            for (std::uint64_t seed = 1; seed <= (loss == 0 ? 1 : options.seeds); ++seed) {
                results.push_back(run(options, opcode, way, loss, seed));
            }
            std::sort(results.begin(), results.end(),
                      [](const Result& x, const Result& y) { return x.gbit_per_s < y.gbit_per_s; });
            const Result& median = results[results.size() / 2];
            lossless = loss == 0 ? median.gbit_per_s : lossless;
            fmt::print("| {} | {:g} % | {:.2f} Gbit/s | {:.2f}..{:.2f} | {:.3f} | {:.2f} % | {} |\n",
                       way.name, loss * 100, median.gbit_per_s, results.front().gbit_per_s,
                       results.back().gbit_per_s, median.gbit_per_s / lossless, 100 * median.resent,
                       median.timeouts);
        }
    }
}

int run_program(int argc, char** argv) {
    Options options;
    std::uint32_t timeout = options.timeout;
    CommandLine app{"Goodput of RC over a lossy link in virtual time, in Markdown."};
    app.option("--gbit", options.gbit_per_s, "rate of the link in Gbit/s").in_range(0.001, 1000.0);
    app.option("--delay-ns", options.delay_ns, "one-way delay of the link in ns");
    app.option("--overtaken", options.overtaken,
               "share of frames that up to ten others overtake, in every row")
        .in_range(0.0, 1.0);
    app.option("--mtu", options.mtu_bytes, "path MTU in bytes").one_of({256, 512, 1024, 2048, 4096});
    app.option("--size", options.message_bytes, "bytes of a message").in_range(1U, kMaxMessageBytes);
    app.option("--depth", options.depth, "messages posted at once").in_range(1U, kMaxDepth);
    app.option("--messages", options.messages, "messages of one run").positive();
    app.option("--seeds", options.seeds, "runs for each row").positive();
    app.option("--timeout", timeout, "local ACK timeout code: 4.096 us * 2^code").in_range(1, 31);
    if (const auto status = app.parse(argc, argv)) return *status;
    options.timeout = static_cast<std::uint8_t>(timeout);
    fmt::print(
        "{:g} Gbit/s, {} ns each way, path MTU {}, ACK timeout code {}, {} messages a run, {} seeds, "
        "{:g} % overtaken\n",
        options.gbit_per_s, options.delay_ns, options.mtu_bytes, timeout, options.messages, options.seeds,
        100 * options.overtaken);
    measure(options, WrOpcode::kWrite, "WRITE");
    measure(options, WrOpcode::kRead, "READ");
    return 0;
}

}  // namespace
}  // namespace urnic::recovery

int main(int argc, char** argv) {
    try {
        return urnic::recovery::run_program(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "recovery: %s\n", error.what());
        return 1;
    }
}
