// What every packet costs in the codec: build, parse, ICRC check.
#include <benchmark/benchmark.h>

#include <vector>

#include "rnic/wire/frame.h"

namespace urnic::wire {
namespace {

Path ipv4_path() {
    PathSpec spec;
    spec.src_mac = {2, 0, 0, 0, 0, 1};
    spec.dst_mac = {2, 0, 0, 0, 0, 2};
    spec.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2};
    return make_path(spec);
}

PacketHeader write_only() {
    PacketHeader header;
    header.opcode = kWriteOnly;
    header.dest_qp = 0x1234;
    header.reth = {0x7f00'0000'1000, 0xabcd, 64};
    return header;
}

std::vector<std::byte> write_frame(std::size_t payload_bytes) {
    std::vector<std::byte> payload(payload_bytes, std::byte{0x5a});
    const MemoryPiece piece{payload.data(), nullptr, 0, static_cast<std::uint32_t>(payload_bytes)};
    std::vector<std::byte> frame(kMaxFrameBytes);
    frame.resize(build_frame(ipv4_path(), write_only(), {&piece, 1}, frame));
    return frame;
}

void build_write(benchmark::State& state) {
    const auto length = static_cast<std::size_t>(state.range(0));
    std::vector<std::byte> payload(length, std::byte{0x5a});
    const MemoryPiece piece{payload.data(), nullptr, 0, static_cast<std::uint32_t>(length)};
    std::vector<std::byte> frame(kMaxFrameBytes);
    const Path path = ipv4_path();
    PacketHeader header = write_only();
    for ([[maybe_unused]] auto _ : state) {
        ++header.psn;
        benchmark::DoNotOptimize(build_frame(path, header, {&piece, length == 0 ? 0U : 1U}, frame));
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(build_write)->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);

void build_acknowledge(benchmark::State& state) {
    std::vector<std::byte> frame(kMaxFrameBytes);
    const Path path = ipv4_path();
    PacketHeader header;
    header.opcode = kAcknowledge;
    for ([[maybe_unused]] auto _ : state) {
        ++header.psn;
        benchmark::DoNotOptimize(build_frame(path, header, {}, frame));
        benchmark::ClobberMemory();
    }
}
BENCHMARK(build_acknowledge);

void parse(benchmark::State& state) {
    const std::vector<std::byte> frame = write_frame(64);
    PacketView view;
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(parse_frame(frame, view));
        benchmark::ClobberMemory();
    }
}
BENCHMARK(parse);

void peek(benchmark::State& state) {
    const std::vector<std::byte> frame = write_frame(64);
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(peek_dest_qp(frame));
        benchmark::ClobberMemory();
    }
}
BENCHMARK(peek);

void check_icrc(benchmark::State& state) {
    const std::vector<std::byte> frame = write_frame(static_cast<std::size_t>(state.range(0)));
    PacketView view;
    if (parse_frame(frame, view) != ParseError::kNone) {
        state.SkipWithError("the frame does not parse");
        return;
    }
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(icrc_ok(view));
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(check_icrc)->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace urnic::wire
