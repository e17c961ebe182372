// What a port with faults costs for each packet: the rules asked about a 64-byte and a 4096-byte SEND. A port
// without faults asks nobody (docs/faults.md).
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "rnic/fault/plan.h"
#include "rnic/wire/frame.h"

namespace urnic {
namespace {

std::vector<std::byte> frame_of(std::uint32_t payload_bytes) {
    wire::PathSpec spec;
    spec.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2};
    wire::PacketHeader header;
    header.opcode = wire::kSendOnly;
    header.dest_qp = 17;
    std::vector<std::byte> payload(payload_bytes);
    const MemoryPiece piece{payload.data(), nullptr, 0, payload_bytes};
    std::vector<std::byte> frame(wire::kMaxFrameBytes);
    frame.resize(wire::build_frame(wire::make_path(spec), header, {&piece, 1}, frame));
    return frame;
}

/// range(0): payload bytes; range(1): rules, each of another probability.
void fault_decide(benchmark::State& state) {
    const std::vector<std::byte> frame = frame_of(static_cast<std::uint32_t>(state.range(0)));
    std::vector<std::shared_ptr<fault::ActiveRule>> rules;
    for (std::uint32_t i = 0; i < state.range(1); ++i) {
        fault::Rule rule;
        rule.action = fault::Action::kEcn;
        rule.probability = 0.001 * (i + 1);
        rules.push_back(std::make_shared<fault::ActiveRule>(rule, i, i));
    }
    const fault::Plan plan(std::move(rules));
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(plan.decide(fault::Direction::kTx, frame));
    }
}
BENCHMARK(fault_decide)->Args({64, 1})->Args({4096, 1})->Args({4096, 4})->Args({4096, 16});

}  // namespace
}  // namespace urnic
