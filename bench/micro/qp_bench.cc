// A whole message through two RC engines in one thread (bench/engines).
#include <benchmark/benchmark.h>

#include "bench/engines/engines.h"

namespace urnic::bench {
namespace {

/// `range(0)` bytes a message, `range(1)` messages posted at once; a step ends with their completions.
void through_two_engines(benchmark::State& state, WrOpcode opcode) {
    const auto length = static_cast<std::uint32_t>(state.range(0));
    const auto batch = static_cast<std::uint32_t>(state.range(1));
    Engines engines;
    for ([[maybe_unused]] auto _ : state) {
        engines.run(opcode, length, batch);
    }
    state.SetItemsProcessed(state.iterations() * state.range(1));
    state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1));
}

void write_through_two_engines(benchmark::State& state) { through_two_engines(state, WrOpcode::kWrite); }
void read_through_two_engines(benchmark::State& state) { through_two_engines(state, WrOpcode::kRead); }
void send_through_two_engines(benchmark::State& state) { through_two_engines(state, WrOpcode::kSend); }
void add_through_two_engines(benchmark::State& state) { through_two_engines(state, WrOpcode::kFetchAdd); }

BENCHMARK(write_through_two_engines)
    ->ArgNames({"bytes", "batch"})
    ->Args({8, 1})
    ->Args({64, 1})
    ->Args({64, 32})
    ->Args({4096, 1})
    ->Args({4096, 32})
    ->Args({65536, 4});
BENCHMARK(read_through_two_engines)
    ->ArgNames({"bytes", "batch"})
    ->Args({8, 1})
    ->Args({8, 16})
    ->Args({65536, 4});
BENCHMARK(send_through_two_engines)
    ->ArgNames({"bytes", "batch"})
    ->Args({8, 1})
    ->Args({64, 32})
    ->Args({65536, 4});
BENCHMARK(add_through_two_engines)->ArgNames({"bytes", "batch"})->Args({8, 1})->Args({8, 16});

}  // namespace
}  // namespace urnic::bench
