// Where the time of a message goes: cycles of the time stamp counter in each stage of its way through two RC
// engines in one thread (bench/engines), and in parts of those stages by themselves. Prints JSON.
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "bench/engines/engines.h"
#include "os/command_line.h"
#include "rnic/wire/crc/crc32.h"

namespace urnic::bench {
namespace {

enum Stage : std::size_t {
    kPost,
    kRequester,
    kParse,
    kIcrc,
    kResponder,
    kAnswer,
    kCompleter,
    kPoll,
    kStages,
};
constexpr std::array<const char*, kStages> kStageNames = {
    "application posts (WQE written)",
    "requester: WQE fetched, headers, payload copied with CRC",
    "request parsed",
    "request's ICRC checked",
    "responder: checks, payload copied",
    "responder: answer built",
    "answer parsed, checked; completer, CQE written",
    "application polls",
};

struct Case {
    const char* name;
    WrOpcode opcode;
    std::uint32_t bytes;
    std::uint32_t batch;
};
constexpr std::array<Case, 6> kCases = {{{"64 B WRITE", WrOpcode::kWrite, 64, 32},
                                         {"4 KB WRITE", WrOpcode::kWrite, 4096, 32},
                                         {"64 B SEND", WrOpcode::kSend, 64, 32},
                                         {"8 B READ", WrOpcode::kRead, 8, 16},
                                         {"4 KB READ", WrOpcode::kRead, 4096, 16},
                                         {"8 B FETCH_ADD", WrOpcode::kFetchAdd, 8, 16}}};

std::uint64_t stamp() {
    _mm_lfence();
    const std::uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
}

/// Books the time since the last call under a stage.
class Stopwatch {
  public:
    void start() { last_ = stamp(); }
    void book(Stage stage) {
        const std::uint64_t now = stamp();
        cycles_[stage] += now - last_;
        last_ = stamp();  // the booking itself is nobody's
    }
    [[nodiscard]] std::uint64_t cycles(Stage stage) const { return cycles_[stage]; }

  private:
    std::uint64_t last_ = 0;
    std::array<std::uint64_t, kStages> cycles_{};
};

/// One batch, as Engines::run() does it, stage by stage over all its packets.
class Walk {
  public:
    Stopwatch batch(const Case& what) {
        Node& requester = engines_.requester();
        Node& responder = engines_.responder();
        const bool takes_receives = what.opcode == WrOpcode::kSend;
        Stopwatch watch;
        watch.start();
        for (std::uint32_t i = 0; i < what.batch; ++i) {
            if (takes_receives) {
                responder.post_receive();
            }
            requester.post(what.opcode, responder, what.bytes);
        }
        watch.book(kPost);
        std::uint32_t completed = 0;
        std::uint32_t received = 0;
        for (std::uint32_t round = 0; completed < what.batch || (takes_receives && received < what.batch);
             ++round) {
            URNIC_CHECK(round < 10'000);
            ++engines_.clock().time;
            (void)requester.progress_once();
            watch.book(kRequester);
            receive(watch, requester, responder);
            (void)responder.progress_once();
            watch.book(kAnswer);
            responder.deliver_to(requester);
            watch.book(kCompleter);
            completed += requester.poll(false);
            received += responder.poll(true);
            watch.book(kPoll);
        }
        return watch;
    }

  private:
    void receive(Stopwatch& watch, Node& requester, Node& responder) {
        const std::uint32_t count = requester.count();
        for (std::uint32_t i = 0; i < count; ++i) {
            URNIC_CHECK(wire::parse_frame(requester.frame(i), views_[i]) == wire::ParseError::kNone);
        }
        watch.book(kParse);
        for (std::uint32_t i = 0; i < count; ++i) {
            URNIC_CHECK(wire::icrc_ok(views_[i]));
        }
        watch.book(kIcrc);
        for (std::uint32_t i = 0; i < count; ++i) {
            responder.deliver(views_[i]);
        }
        requester.clear();
        watch.book(kResponder);
    }

    Engines engines_;
    std::vector<wire::PacketView> views_ = std::vector<wire::PacketView>(Node::kFrames);
};

double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

nlohmann::ordered_json stages_of(const Case& what, std::uint32_t batches) {
    Walk walk;
    std::array<std::vector<double>, kStages> samples;
    for (std::uint32_t i = 0; i < batches; ++i) {
        const Stopwatch watch = walk.batch(what);
        for (std::size_t stage = 0; stage < kStages; ++stage) {
            samples[stage].push_back(static_cast<double>(watch.cycles(static_cast<Stage>(stage))) /
                                     what.batch);
        }
    }
    nlohmann::ordered_json found;
    for (std::size_t stage = 0; stage < kStages; ++stage) {
        found[kStageNames[stage]] = median(samples[stage]);
    }
    return found;
}

/// Cycles a call of `part`, the median over blocks of 32 calls.
template <typename Part>
double cycles_of(std::uint32_t blocks, Part part) {
    constexpr std::uint32_t kCalls = 32;
    std::vector<double> samples;
    for (std::uint32_t i = 0; i < blocks; ++i) {
        const std::uint64_t begin = stamp();
        for (std::uint32_t call = 0; call < kCalls; ++call) {
            part();
        }
        samples.push_back(static_cast<double>(stamp() - begin) / kCalls);
    }
    return median(samples);
}

wire::Path some_path() {
    wire::PathSpec spec;
    spec.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2};
    return wire::make_path(spec);
}

double cycles_of_fetch(std::uint32_t blocks) {
    constexpr std::uint32_t kEntries = 128;
    constexpr std::uint32_t kStride = abi::send_stride(1, 0);
    const Memory ring = zeroed_memory(std::size_t{kEntries} * kStride);
    const SendQueue queue(ring.get(), kEntries, kStride, 1, 0);
    SendWork work;
    std::uint32_t index = 0;
    return cycles_of(blocks, [&] {
        auto* wqe = reinterpret_cast<abi::SendWqe*>(ring.get() + std::size_t{index % kEntries} * kStride);
        wqe->num_sge = 1;
        wqe->seq.store(index + 1, std::memory_order_release);
        URNIC_CHECK(queue.fetch(index++, work) == Fetch::kOk);
    });
}

double cycles_of_push(std::uint32_t blocks) {
    constexpr std::uint32_t kEntries = 256;
    const Memory memory = zeroed_memory(abi::cq_bytes(1, kEntries));
    CompletionQueue cq(memory.get(), kEntries);
    auto& consumer = reinterpret_cast<abi::CqHeader*>(memory.get())->consumer[0].index;
    const Completion completion;
    std::uint32_t taken = 0;
    return cycles_of(blocks, [&] {
        URNIC_CHECK(cq.push(0, completion, 1));
        consumer.store(++taken, std::memory_order_release);
    });
}

double cycles_of_build(std::uint32_t blocks, std::uint8_t opcode, std::uint32_t bytes) {
    const Memory payload = zeroed_memory(4096);
    const Memory frame = zeroed_memory(wire::kMaxFrameBytes);
    const wire::Path path = some_path();
    const MemoryPiece piece{payload.get(), nullptr, 0, bytes};
    wire::PacketHeader header;
    header.opcode = opcode;
    header.reth.dma_length = bytes;
    return cycles_of(blocks, [&] {
        ++header.psn;
        URNIC_CHECK(wire::build_frame(path, header, {&piece, bytes == 0 ? 0U : 1U},
                                      {frame.get(), wire::kMaxFrameBytes}) != 0);
    });
}

double cycles_of_copy(std::uint32_t blocks, std::uint32_t bytes) {
    const Memory from = zeroed_memory(4096);
    const Memory to = zeroed_memory(wire::kMaxFrameBytes);
    std::uint32_t crc = ~0U;
    return cycles_of(blocks, [&] { crc = wire::crc32_copy(crc, to.get() + 70, from.get(), bytes); });
}

nlohmann::ordered_json parts(std::uint32_t blocks) {
    nlohmann::ordered_json found;
    found["WQE written and fetched"] = cycles_of_fetch(blocks);
    found["headers and ICRC of a WRITE without payload"] = cycles_of_build(blocks, wire::kWriteOnly, 0);
    found["acknowledgement built"] = cycles_of_build(blocks, wire::kAcknowledge, 0);
    found["frame of a WRITE built, 64 B"] = cycles_of_build(blocks, wire::kWriteOnly, 64);
    found["frame of a WRITE built, 4 KB"] = cycles_of_build(blocks, wire::kWriteOnly, 4096);
    found["copy with CRC, 64 B"] = cycles_of_copy(blocks, 64);
    found["copy with CRC, 4 KB"] = cycles_of_copy(blocks, 4096);
    found["CQE written"] = cycles_of_push(blocks);
    return found;
}

/// Of the time stamp counter, in GHz.
double tsc_ghz() {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t first = stamp();
    std::chrono::duration<double, std::nano> elapsed{};
    do {
        elapsed = std::chrono::steady_clock::now() - begin;
    } while (elapsed.count() < 5e7);
    return static_cast<double>(stamp() - first) / elapsed.count();
}

int run(int argc, char** argv) {
    CommandLine app("Cycles a message in each stage of its way, as JSON: medians.");
    std::uint32_t batches = 2000;
    app.option("--batches", batches, "batches of each kind").in_range(1U, 1'000'000U);
    if (const auto status = app.parse(argc, argv)) return *status;
    nlohmann::ordered_json found;
    found["tsc_ghz"] = tsc_ghz();
    found["crc32"] = wire::crc32_variant();
    for (const Case& what : kCases) {
        found["stages"][std::string(what.name) + ", " + std::to_string(what.batch) + " at once"] =
            stages_of(what, batches);
    }
    found["parts"] = parts(batches);
    std::printf("%s\n", found.dump(1).c_str());
    return 0;
}

}  // namespace
}  // namespace urnic::bench

int main(int argc, char** argv) {
    try {
        return urnic::bench::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "stages: %s\n", error.what());
        return 1;
    }
}
