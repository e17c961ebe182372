// CRC-32, alone and fused with a copy, and the payload copy: each variant the CPU has, at several sizes.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>

#include "rnic/wire/crc/crc32_variants.h"

namespace urnic::wire {
namespace {

// Where the payload of an IPv4 WRITE begins in its frame; sources are aligned as applications' buffers are.
constexpr std::size_t kFrameOffset = 14 + 20 + 8 + 12 + 16;

struct alignas(64) Buffer {
    std::byte bytes[kFrameOffset + 4096];
};
struct Buffers {
    std::unique_ptr<Buffer> source_memory = std::make_unique<Buffer>();
    std::unique_ptr<Buffer> target_memory = std::make_unique<Buffer>();
    std::byte* source = source_memory->bytes;
    std::byte* target = target_memory->bytes;
};

bool runs_here(benchmark::State& state, const Crc32Variant& variant) {
    if (!variant.supported()) {
        state.SkipWithError("this CPU has not the instructions");
        return false;
    }
    return true;
}

void crc32_update(benchmark::State& state, const Crc32Variant& variant) {
    if (!runs_here(state, variant)) {
        return;
    }
    const auto length = static_cast<std::size_t>(state.range(0));
    const Buffers buffers;
    std::uint32_t crc = ~0U;
    for ([[maybe_unused]] auto _ : state) {
        crc = variant.update(crc, buffers.source, length);
        benchmark::DoNotOptimize(crc);
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}

void crc32_copy(benchmark::State& state, const Crc32Variant& variant) {
    if (!runs_here(state, variant)) {
        return;
    }
    const auto length = static_cast<std::size_t>(state.range(0));
    const Buffers buffers;
    std::uint32_t crc = ~0U;
    for ([[maybe_unused]] auto _ : state) {
        crc = variant.copy(crc, buffers.target + kFrameOffset, buffers.source, length);
        benchmark::DoNotOptimize(crc);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy_payload(benchmark::State& state, const Crc32Variant& variant) {
    if (!runs_here(state, variant)) {
        return;
    }
    const auto length = static_cast<std::size_t>(state.range(0));
    const Buffers buffers;
    for ([[maybe_unused]] auto _ : state) {
        variant.copy_payload(buffers.target, buffers.source + kFrameOffset, length);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}

void sizes(benchmark::internal::Benchmark* bench) { bench->Arg(8)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096); }

BENCHMARK_CAPTURE(crc32_update, avx512, kCrc32Avx512)->Apply(sizes);
BENCHMARK_CAPTURE(crc32_update, avx2, kCrc32Avx2)->Apply(sizes);
BENCHMARK_CAPTURE(crc32_update, pclmul, kCrc32Pclmul)->Apply(sizes);
BENCHMARK_CAPTURE(crc32_update, table, kCrc32Table)->Apply(sizes);
BENCHMARK_CAPTURE(crc32_copy, avx512, kCrc32Avx512)->Apply(sizes);
BENCHMARK_CAPTURE(crc32_copy, avx2, kCrc32Avx2)->Apply(sizes);
BENCHMARK_CAPTURE(crc32_copy, pclmul, kCrc32Pclmul)->Apply(sizes);
BENCHMARK_CAPTURE(crc32_copy, table, kCrc32Table)->Apply(sizes);
BENCHMARK_CAPTURE(copy_payload, avx2, kCrc32Avx2)->Apply(sizes);
BENCHMARK_CAPTURE(copy_payload, sse, kCrc32Table)->Apply(sizes);

}  // namespace
}  // namespace urnic::wire
