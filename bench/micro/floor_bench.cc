// The floor's daemon and rings in one thread: what qp_bench.cc is to be compared with, free of schedulers.
#include <benchmark/benchmark.h>

#include <memory>

#include "base/check.h"
#include "bench/e2e/floor_daemon.h"

namespace urnic::bench {
namespace {

/// `range(0)` bytes a WRITE, `range(1)` WRITEs posted at once; a step ends with their completions.
void write_through_floor(benchmark::State& state) {
    const auto length = static_cast<std::uint32_t>(state.range(0));
    const auto batch = static_cast<std::uint32_t>(state.range(1));
    const auto memory = std::make_unique<FloorMemory>();
    FloorDaemon daemon(*memory);
    FloorPoster poster(memory->apps[0]);
    for ([[maybe_unused]] auto _ : state) {
        for (std::uint32_t i = 0; i < batch; ++i) {
            poster.post(length, true);
        }
        while (poster.done() != poster.posted()) {
            URNIC_CHECK(daemon.step());
            while (poster.poll()) {
            }
        }
    }
    state.SetItemsProcessed(state.iterations() * state.range(1));
    state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1));
}
BENCHMARK(write_through_floor)
    ->ArgNames({"bytes", "batch"})
    ->Args({8, 1})
    ->Args({64, 1})
    ->Args({64, 32})
    ->Args({4096, 1})
    ->Args({4096, 32})
    ->Args({65536, 4});

}  // namespace
}  // namespace urnic::bench
