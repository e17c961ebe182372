// Starting DPDK: each case in a process of its own, since the EAL starts once.
#include "dataplane/port/eal.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/in_process_switch.h"

namespace urnic::dataplane {
namespace {

struct Outcome {
    int status = -1;
    std::string said;  // on stdout and stderr
};

/// Runs `body` in a child; its exit status is what `body` returns.
Outcome in_child(const std::function<int()>& body) {
    std::array<int, 2> pipe_fds{};
    EXPECT_EQ(pipe(pipe_fds.data()), 0);
    (void)fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        dup2(pipe_fds[1], STDERR_FILENO);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        int result = 99;
        try {
            result = body();
        } catch (const SetupError& error) {
            std::printf("%s\n", error.what());
            result = 1;
        }
        (void)fflush(nullptr);
        _exit(result);
    }
    close(pipe_fds[1]);
    Outcome outcome;
    std::array<char, 4096> chunk{};
    for (ssize_t got = 0; (got = read(pipe_fds[0], chunk.data(), chunk.size())) > 0;) {
        outcome.said.append(chunk.data(), static_cast<std::size_t>(got));
    }
    close(pipe_fds[0]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSmallKb = 600ULL * 1024;  // with the sanitizer's own memory
#else
constexpr std::uint64_t kSmallKb = 100ULL * 1024;
#endif

std::uint64_t resident_kb() {
    std::ifstream file("/proc/self/status");
    std::string word;
    while (file >> word) {
        if (word == "VmRSS:") {
            std::uint64_t kilobytes = 0;
            file >> kilobytes;
            return kilobytes;
        }
    }
    return 0;
}

TEST(Eal, StartsWithoutPrivilegesSilentlyAndLeavesTheAffinity) {
    const Outcome outcome = in_child([] {
        cpu_set_t before;
        cpu_set_t after;
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
            return 2;
        }
        sched_getaffinity(0, sizeof(before), &before);
        start_eal({});
        sched_getaffinity(0, sizeof(after), &after);
        return CPU_EQUAL(&before, &after) ? 0 : 3;
    });
    EXPECT_EQ(outcome.status, 0) << outcome.said;
    EXPECT_EQ(outcome.said, "");
}

TEST(Eal, WorksOnTheLastCpuAlone) {
    const Outcome outcome = in_child([] {
        cpu_set_t all;
        sched_getaffinity(0, sizeof(all), &all);
        int last = CPU_SETSIZE - 1;
        while (!CPU_ISSET(last, &all)) {
            --last;
        }
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(last, &one);
        sched_setaffinity(0, sizeof(one), &one);
        start_eal({});
        return 0;
    });
    EXPECT_EQ(outcome.status, 0) << outcome.said;
}

TEST(Eal, VerboseTells) {
    const Outcome outcome = in_child([] {
        start_eal({.verbose = true});
        return 0;
    });
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.said.find("EAL:"), std::string::npos);
}

TEST(Eal, HugepagesThatAreNotThereAreExplained) {
    const Outcome outcome = in_child([] {
        start_eal({.hugepages = true, .memory_mb = 64U << 20U});  // 64 TB
        return 0;
    });
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.said.find("nr_hugepages"), std::string::npos) << outcome.said;
    EXPECT_NE(outcome.said.find("EAL:"), std::string::npos) << outcome.said;
}

TEST(Eal, MemoryThatIsNotThereIsExplained) {
    const Outcome outcome = in_child([] {
        start_eal({.memory_mb = 1U << 30U});
        return 0;
    });
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.said.find("MB of memory"), std::string::npos) << outcome.said;
}

TEST(Eal, APoolThatDoesNotFitIsExplained) {
    const Outcome outcome = in_child([] {
        start_eal({.memory_mb = 32});
        (void)make_frame_pool("too_big", 100'000);
        return 0;
    });
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.said.find("packet memory"), std::string::npos) << outcome.said;
}

/// The whole of a daemon's packet memory, as it asks for it, fits; and two RNICs with one worker stay small.
TEST(Eal, PacketMemoryHoldsThePoolAndStaysSmall) {
    for (const auto& [ports, workers] : {std::pair{2U, 1U}, {2U, 2U}, {4U, 4U}, {2U, 16U}}) {
        const Outcome outcome = in_child([ports = ports, workers = workers] {
            const std::uint32_t frames = frames_for(ports, workers, InProcessSwitch::kRingFrames);
            start_eal({.memory_mb = packet_memory_mb(frames)});
            (void)make_frame_pool("frames", frames);
            const bool small = workers > 2 || resident_kb() < kSmallKb;
            std::printf("%u ports, %u workers: %u frames, %lu KB resident\n", ports, workers, frames,
                        static_cast<unsigned long>(resident_kb()));
            return small ? 0 : 4;
        });
        EXPECT_EQ(outcome.status, 0) << outcome.said;
        std::printf("%s", outcome.said.c_str());
    }
}

}  // namespace
}  // namespace urnic::dataplane
