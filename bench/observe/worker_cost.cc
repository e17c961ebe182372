// What a live capture costs a worker: it carries WRITEs between two RNICs of its own in frames, while nobody
// looks and while captures do whose reader takes no time. Prints JSON: cycles of the time stamp counter from
// the doorbell to the last completion, by message.
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "os/command_line.h"
#include "tests/support/ring_memory.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::bench {
namespace {

using dataplane::PacketCapture;
using dataplane::PacketCaptures;
using dataplane::rig::PageMemory;
using dataplane::rig::Rig;
using dataplane::rig::sge;
using dataplane::rig::TestClient;
using dataplane::rig::TestCq;
using dataplane::rig::TestQp;

constexpr std::size_t kRingBytes = std::size_t{32} << 20U;  // what urnic capture asks for

/// One that a reader follows without delay.
class Looker {
  public:
    Looker(std::uint32_t rnics, std::uint32_t snap_bytes, bool has_completions)
        : memory_(zeroed_memory(kRingBytes + abi::kCaptureRingHeaderBytes, kPageBytes)) {
        capture.rnics = rnics;
        capture.snap_bytes = snap_bytes;
        capture.has_completions = has_completions;
        capture.rings[0] =
            dataplane::CaptureRingWriter({memory_.get(), kRingBytes + abi::kCaptureRingHeaderBytes});
    }
    /// Returns how many records were written since the last call.
    std::uint64_t read() {
        auto& ring = *reinterpret_cast<abi::CaptureRing*>(memory_.get());
        ring.tail.store(ring.head.load(std::memory_order_acquire), std::memory_order_release);
        const std::uint64_t before = seen_;
        seen_ = ring.rnics[0].seen.load() + ring.rnics[1].seen.load();
        URNIC_CHECK(ring.rnics[0].lost.load() + ring.rnics[1].lost.load() == 0);
        return seen_ - before;
    }

    PacketCapture capture;

  private:
    RingMemory memory_;
    std::uint64_t seen_ = 0;
};

struct Mode {
    const char* name;
    std::unique_ptr<Looker> looker;  // nullptr: nobody looks

    [[nodiscard]] std::uint64_t read() const { return looker != nullptr ? looker->read() : 0; }
};
struct Sizes {
    const char* name;
    std::uint32_t bytes;
    std::uint32_t batch;
};
constexpr std::array<Sizes, 3> kSizes = {{{"64 KB", 65536, 16}, {"4 KB", 4096, 64}, {"64 B", 64, 64}}};

class Bench {
  public:
    explicit Bench(int cpu) : rig_({.cpus = {cpu}, .offload = false}) {
        from_key_ = rig_.register_memory(0, from_);
        to_key_ = rig_.register_memory(1, to_);
        URNIC_CHECK(a_.connect(b_) == 0 && b_.connect(a_) == 0);
    }
    void look(Looker* looker) {
        PacketCaptures captures{};
        captures[0] = looker != nullptr ? &looker->capture : nullptr;
        rig_.call(0, [&] { rig_.worker(0).use_captures(captures); });
    }
    /// Cycles of a message, of one batch.
    double batch(const Sizes& what) {
        sim::SendRequest request;
        request.opcode = WrOpcode::kWrite;
        request.sge = {sge(from_, 0, what.bytes, from_key_)};
        request.remote_addr = reinterpret_cast<std::uint64_t>(to_.data());
        request.rkey = to_key_;
        for (std::uint32_t i = 0; i < what.batch; ++i) {
            a_.post_send(request, false);
        }
        const std::uint64_t begin = __rdtsc();
        client_->ring(0, 51);
        for (std::uint32_t done = 0; done < what.batch;) {
            if (const auto completion = cq_a_.poll()) {
                URNIC_CHECK(completion->status == WcStatus::kSuccess);
                ++done;
            }
        }
        return static_cast<double>(__rdtsc() - begin) / what.batch;
    }

  private:
    Rig rig_;
    std::unique_ptr<TestClient> client_ = rig_.make_client();
    TestCq cq_a_{1, 256};
    TestCq cq_b_{1, 256};
    TestQp a_{rig_, *client_, 0, 51, 51, cq_a_};
    TestQp b_{rig_, *client_, 1, 52, 52, cq_b_};
    PageMemory from_{65536};
    PageMemory to_{65536};
    std::uint32_t from_key_ = 0;
    std::uint32_t to_key_ = 0;
};

/// What a batch takes that nothing disturbs: the second of a hundred.
double undisturbed(std::vector<double>& values) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 50);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

class Measurement {
  public:
    Measurement(Bench& bench, std::vector<Mode>& modes) : bench_(bench), modes_(modes) {}
    nlohmann::ordered_json run(const Sizes& what, std::uint32_t batches) {
        constexpr std::uint32_t kTurn = 20;  // batches, before the next looks
        std::vector<std::vector<double>> samples(modes_.size());
        std::vector<std::uint64_t> records(modes_.size());
        for (std::uint32_t i = 0; i < batches; i += kTurn) {
            for (std::size_t mode = 0; mode < modes_.size(); ++mode) {
                bench_.look(modes_[mode].looker.get());
                (void)bench_.batch(what);
                (void)modes_[mode].read();
                for (std::uint32_t turn = 0; turn < kTurn; ++turn) {
                    samples[mode].push_back(bench_.batch(what));
                    records[mode] += modes_[mode].read();
                }
            }
        }
        nlohmann::ordered_json found;
        for (std::size_t mode = 0; mode < modes_.size(); ++mode) {
            const double messages = static_cast<double>(samples[mode].size()) * what.batch;
            found[modes_[mode].name] = {{"cycles", undisturbed(samples[mode])},
                                        {"records", static_cast<double>(records[mode]) / messages}};
        }
        return found;
    }

  private:
    Bench& bench_;
    std::vector<Mode>& modes_;
};

int run(int argc, char** argv) {
    CommandLine app("What a capture costs a worker, as JSON: cycles and records a message.");
    std::uint32_t batches = 2000;
    std::uint32_t cpu = 1;
    app.option("--batches", batches, "batches of each kind").in_range(1U, 1'000'000U);
    app.option("--cpu", cpu, "of the worker").in_range(0U, 1023U);
    if (const auto status = app.parse(argc, argv)) return *status;
    dataplane::rig::start_eal_once();
    Bench bench(static_cast<int>(cpu));
    constexpr std::uint32_t kBoth = 3;
    constexpr std::uint32_t kSender = 1;
    constexpr std::uint32_t kHeaders = 128;
    constexpr std::uint32_t kWhole = 65535;
    std::vector<Mode> modes;
    modes.push_back({"nobody looks", nullptr});
    modes.push_back(
        {"urnic capture urnic0 --snaplen 128", std::make_unique<Looker>(kSender, kHeaders, false)});
    modes.push_back({"urnic capture --snaplen 128", std::make_unique<Looker>(kBoth, kHeaders, false)});
    modes.push_back({"urnic capture", std::make_unique<Looker>(kBoth, kWhole, false)});
    modes.push_back({"urnic trace", std::make_unique<Looker>(kBoth, kHeaders, true)});
    Measurement measurement(bench, modes);
    nlohmann::ordered_json found;
    for (const Sizes& what : kSizes) {
        found[what.name] = measurement.run(what, batches);
    }
    std::printf("%s\n", found.dump(1).c_str());
    return 0;
}

}  // namespace
}  // namespace urnic::bench

int main(int argc, char** argv) {
    try {
        return urnic::bench::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "worker_cost: %s\n", error.what());
        return 1;
    }
}
