// Random walks from seeds until enough messages have completed. Environment:
//   URNIC_SEED=N            that walk alone
//   URNIC_PACKET_LOG=BASE   with URNIC_SEED: writes BASE.txt and BASE.pcap
//   URNIC_TRACE=FILE        with URNIC_SEED: writes the events of all QPs, for urnic view
//   URNIC_FIRST_SEED=N      begin with this seed
//   URNIC_WALK_MESSAGES=N   go on until N messages have completed
//   URNIC_WALK_SHARD=I/N    every N-th seed from the I-th on, and its share of the messages
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tests/sim/walk/commit.h"
#include "tests/sim/walk/walk.h"
#include "tests/sim/walk/walk_trace.h"

namespace urnic::sim {
namespace {

// Instrumented code is slower by one and two orders of magnitude. GCC and clang have words of their own for
// it.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define URNIC_HAS_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define URNIC_HAS_ASAN
#endif
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kMessages = 100'000;
#elif defined(URNIC_HAS_ASAN)
constexpr std::uint64_t kMessages = 200'000;
#else
constexpr std::uint64_t kMessages = 2'200'000;
#endif

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

struct Shard {
    std::uint64_t index = 0;
    std::uint64_t count = 1;
};

Shard shard_from_environment() {
    Shard shard;
    if (const char* text = std::getenv("URNIC_WALK_SHARD")) {
        char* rest = nullptr;
        shard.index = std::strtoull(text, &rest, 10);
        shard.count = *rest == '/' ? std::max<std::uint64_t>(1, std::strtoull(rest + 1, nullptr, 10)) : 1;
    }
    return shard;
}

std::string program() {
    std::array<char, 4'096> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    return length > 0 ? std::string(path.data()) : "sim_rc_random_walk_test";
}

std::string replay_command(std::uint64_t seed) {
    return "URNIC_SEED=" + std::to_string(seed) + " " + program() +
           " --gtest_filter=RcRandomWalk.* (URNIC_TRACE=FILE: with a trace for urnic view)";
}

/// A failed walk runs once more with a packet log and a trace; all that is needed to look into it, on one
/// line.
void report(const WalkPlan& plan, const std::string& failure) {
    const std::string base = program() + "-seed-" + std::to_string(plan.seed);
    std::string again = "no packet log";
    try {
        PacketLog log(base);
        const std::string trace_path = base + ".ndjson";
        WalkTrace trace(trace_path);
        Walk walk(plan, &log, &trace.watcher());
        again = walk.run() == failure
                    ? "packet log " + log.text_path() + ", trace for urnic view " + trace_path
                    : "the second run went otherwise";
    } catch (const std::exception& error) {
        again = error.what();
    }
    ADD_FAILURE() << "seed " << plan.seed << " (" << plan.describe() << "), commit " << kCommit << ", "
                  << again << ", replay: " << replay_command(plan.seed) << ": " << failure;
}

void print(const WalkStats& stats, std::uint64_t walks) {
    std::printf(
        "%lu walks, %lu connections, %lu messages (%lu READs, %lu atomics, %lu receives, %lu MB), %lu errors "
        "and %lu "
        "flushed; %lu packets, %lu retries; links: %lu frames, %lu lost, %lu duplicated, %lu reordered, %lu "
        "corrupted, "
        "%lu on full queues; %lu keys revoked, %lu completions lost, %lu timely RETRY_EXC_ERR\n",
        walks, stats.connections, stats.oracle.messages, stats.oracle.reads, stats.oracle.atomics,
        stats.oracle.receives, stats.oracle.bytes >> 20U, stats.oracle.errors, stats.oracle.flushed,
        stats.packets, stats.retries, stats.links.frames, stats.links.lost, stats.links.duplicated,
        stats.links.reordered, stats.links.corrupted, stats.links.queue_full, stats.trouble.revoked,
        stats.trouble.lost, stats.trouble.gave_up);
}

TEST(RcRandomWalk, EveryCompletionAgreesWithTheOracle) {
    if (const char* text = std::getenv("URNIC_SEED")) {
        const WalkPlan plan = make_plan(std::strtoull(text, nullptr, 0));
        const char* base = std::getenv("URNIC_PACKET_LOG");
        const std::unique_ptr<PacketLog> log = base != nullptr ? std::make_unique<PacketLog>(base) : nullptr;
        const char* trace_path = std::getenv("URNIC_TRACE");
        const auto trace = trace_path != nullptr ? std::make_unique<WalkTrace>(trace_path) : nullptr;
        Walk walk(plan, log.get(), trace != nullptr ? &trace->watcher() : nullptr);
        EXPECT_EQ(walk.run(), "") << plan.describe() << ", commit " << kCommit;
        print(walk.stats(), 1);
        return;
    }
    const Shard shard = shard_from_environment();
    const std::uint64_t wanted = number_from("URNIC_WALK_MESSAGES", kMessages) / shard.count;
    const std::uint64_t first = number_from("URNIC_FIRST_SEED", 1);
    WalkStats total;
    std::uint64_t walks = 0;
    for (; total.oracle.messages < wanted && !HasFailure(); ++walks) {
        const WalkPlan plan = make_plan(first + shard.index + walks * shard.count);
        Walk walk(plan);
        const std::string failure = walk.run();
        if (!failure.empty()) {
            report(plan, failure);
        }
        total.add(walk.stats());
    }
    print(total, walks);
    RecordProperty("messages", std::to_string(total.oracle.messages));
    RecordProperty("packets", std::to_string(total.packets));
    if (!HasFailure()) {
        EXPECT_GE(total.oracle.messages, wanted);
        EXPECT_GE(total.packets, 2 * wanted);  // a request and an answer
        EXPECT_GT(total.retries, wanted / 1'000);
        EXPECT_GT(total.links.corrupted, wanted / 1'000);
        // Some walks have none of these; many have.
        if (wanted >= 1'000'000) {
            EXPECT_GT(total.trouble.revoked, 100U);
            EXPECT_GT(total.trouble.lost, 100U);
            EXPECT_GT(total.trouble.gave_up, 100U);
        }
    }
}

}  // namespace
}  // namespace urnic::sim
