// The daemon's end of the rings: a WQE in, a CQE out.
#include <benchmark/benchmark.h>

#include <memory>

#include "rnic/queue/completion_queue.h"
#include "rnic/queue/work_queue.h"
#include "tests/support/ring_memory.h"

namespace urnic {
namespace {

void fetch_send_wqe(benchmark::State& state) {
    constexpr std::uint32_t kEntries = 128;
    const std::uint32_t stride = abi::send_stride(abi::kMaxSge, 0);
    const RingMemory memory = zeroed_memory(std::size_t{kEntries} * stride, kPageBytes);
    const SendQueue queue(memory.get(), kEntries, stride, abi::kMaxSge, 0);
    const auto sges = static_cast<std::uint8_t>(state.range(0));
    std::uint32_t index = 0;
    SendWork work;
    for ([[maybe_unused]] auto _ : state) {
        auto* wqe = reinterpret_cast<abi::SendWqe*>(memory.get() + std::size_t{index % kEntries} * stride);
        wqe->num_sge = sges;
        wqe->seq.store(index + 1, std::memory_order_release);
        benchmark::DoNotOptimize(queue.fetch(index, work));
        benchmark::ClobberMemory();
        ++index;
    }
}
BENCHMARK(fetch_send_wqe)->Arg(1)->Arg(16);

void push_completion(benchmark::State& state) {
    constexpr std::uint32_t kEntries = 256;
    const RingMemory memory = zeroed_memory(abi::cq_bytes(1, kEntries), kPageBytes);
    CompletionQueue cq(memory.get(), kEntries);
    auto& consumer = reinterpret_cast<abi::CqHeader*>(memory.get())->consumer[0].index;
    Completion completion;
    std::uint32_t taken = 0;
    for ([[maybe_unused]] auto _ : state) {
        ++completion.wr_id;
        benchmark::DoNotOptimize(cq.push(0, completion, 1));
        consumer.store(++taken, std::memory_order_release);  // the application polls at once
    }
}
BENCHMARK(push_completion);

}  // namespace
}  // namespace urnic
