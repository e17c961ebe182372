// Applications killed in the middle of a transfer: what they owned is gone, their peers are told, everybody
// else continues, and the daemon does not grow. Runs under `urnic run --standalone`.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/e2e/crash/victim.h"
#include "tests/e2e/verbs/busy_threads.h"
#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr int kKills = 200;
/// The first ones let the daemon's allocators reach their size.
constexpr int kWarmUp = 20;

nlohmann::json daemon_status() {
    const char* build = std::getenv("URNIC_BUILD");
    const std::string command = std::string(build != nullptr ? build : "build") + "/urnic status --json";
    const std::unique_ptr<FILE, int (*)(FILE*)> out(popen(command.c_str(), "r"), pclose);
    std::string text;
    for (int c = fgetc(out.get()); c != EOF; c = fgetc(out.get())) {
        text.push_back(static_cast<char>(c));
    }
    return nlohmann::json::parse(text);
}

/// What a leak would show in.
struct Footprint {
    std::size_t descriptors = 0;
    std::size_t mappings = 0;
    std::size_t resident_kb = 0;
};

Footprint footprint_of(int pid) {
    const std::string proc = "/proc/" + std::to_string(pid);
    Footprint footprint;
    for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
        (void)entry;
        ++footprint.descriptors;
    }
    std::ifstream maps(proc + "/maps");
    for (std::string line; std::getline(maps, line);) {
        ++footprint.mappings;
    }
    std::ifstream status(proc + "/status");
    for (std::string word; status >> word;) {
        if (word == "VmRSS:") {
            status >> footprint.resident_kb;
        }
    }
    return footprint;
}

/// The daemon's footprint once it knows of no client but this process.
Footprint settled_footprint(std::size_t our_qps) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    for (;;) {
        const nlohmann::json status = daemon_status();
        std::size_t qps = 0;
        for (const auto& device : status["devices"]) {
            qps += device["qps"].get<std::size_t>();
        }
        if (status["clients"].size() == 1 && qps == our_qps) {
            EXPECT_EQ(status["clients"][0]["pid"], getpid());
            return footprint_of(status["daemon"]["pid"]);
        }
        if (std::chrono::steady_clock::now() > give_up) {
            ADD_FAILURE() << "the dead are still there:\n" << status["clients"].dump(1);
            return {};
        }
    }
}

/// Two QPs that transfer and compare for as long as the object lives.
class Bystander {
  public:
    Bystander() : a_("urnic0"), b_("urnic1") {
        connect(a_, b_);
        thread_ = std::thread([this] { transfer(); });
    }
    ~Bystander() { stop(); }
    void stop() {
        stop_ = true;
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
    [[nodiscard]] std::uint64_t failures() const { return failures_; }

  private:
    void transfer() {
        constexpr std::size_t kBytes = 100'000;
        for (std::uint32_t round = 1; !stop_; ++round) {
            fill(a_.at(0), kBytes, round);
            ibv_sge sge = a_.sge(0, kBytes);
            ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, round, &sge, 1, b_, 0);
            a_.post(wr);
            const ibv_wc completion = a_.poll_one();
            const bool good =
                completion.status == IBV_WC_SUCCESS && first_difference(b_.at(0), kBytes, round) == -1;
            failures_ += good ? 0 : 1;
            ++rounds_;
            if (!good) {
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }

    Endpoint a_, b_;
    std::thread thread_;
    std::atomic<bool> stop_{false};
    std::atomic<std::uint64_t> rounds_{0};
    std::atomic<std::uint64_t> failures_{0};
};

/// Keeps transferring to the victim until `kill` is due and beyond, and sees the end of it.
void see_it_die(const Endpoint& survivor, std::minstd_rand& random) {
    Victim victim("urnic1", survivor);
    if (testing::Test::HasFailure()) {
        return;
    }
    const std::uint32_t transfers_before_kill = 1 + random() % 40;
    std::uint32_t outstanding = 0;
    std::uint32_t succeeded = 0;
    ibv_wc completion{};
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (completion.status == IBV_WC_SUCCESS && std::chrono::steady_clock::now() < give_up) {
        while (outstanding < kDepth && post_transfer(survivor, victim.identity(), succeeded) == 0) {
            ++outstanding;
        }
        if (ibv_poll_cq(survivor.cq, 1, &completion) != 1) {
            std::this_thread::yield();
            continue;
        }
        --outstanding;
        succeeded += completion.status == IBV_WC_SUCCESS ? 1 : 0;
        // Both directions are under way: the victim's bytes arrive here as well.
        if (succeeded >= transfers_before_kill &&
            first_difference(survivor.at(kTransferBytes), 16, 7) == -1) {
            victim.kill();
        }
    }
    EXPECT_GE(succeeded, transfers_before_kill) << "it failed before the kill";
    EXPECT_EQ(completion.status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(completion.status);
    for (; outstanding > 0; --outstanding) {
        EXPECT_EQ(survivor.poll_one().status, IBV_WC_WR_FLUSH_ERR);
    }
    EXPECT_EQ(survivor.state(), IBV_QPS_ERR);
}

TEST(AppCrash, TwoHundredKillsInTheMiddleOfATransfer) {
    const char* given = std::getenv("URNIC_TEST_SEED");
    const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    std::minstd_rand random(seed);
    Bystander bystander;
    constexpr std::size_t kBystanderQps = 2;
    Footprint before;
    for (int kill = 0; kill < kKills && !HasFailure(); ++kill) {
        if (kill == kWarmUp) {
            before = settled_footprint(kBystanderQps);
        }
        EndpointOptions options;
        options.buffer_bytes = std::size_t{2} * kTransferBytes;
        const Endpoint survivor("urnic0", options);
        see_it_die(survivor, random);
    }
    const Footprint after = settled_footprint(kBystanderQps);
    bystander.stop();
    EXPECT_EQ(bystander.failures(), 0U);
    EXPECT_GT(bystander.rounds(), static_cast<std::uint64_t>(kKills));
    // A leak would show once for each kill; a connection of `urnic status` that is not closed yet shows once.
    EXPECT_LE(after.descriptors, before.descriptors + 4);
    EXPECT_LE(after.mappings, before.mappings + 4);
    // And each kill's keys may be the first in their page of a table.
    EXPECT_LE(after.resident_kb, before.resident_kb + 2048 + std::size_t{kKills} * 8);
}

// A NIC has sent what its doorbell was rung for, though the program is gone.
TEST(AppCrash, WhatWasSentBeforeTheEndArrives) {
    constexpr int kRounds = 40;
    const BusyThreads busy;
    for (int round = 0; round < kRounds && !HasFailure(); ++round) {
        SCOPED_TRACE(round);
        EndpointOptions options;
        options.buffer_bytes = std::size_t{2} * kTransferBytes;
        const Endpoint survivor("urnic0", options);
        Victim victim("urnic1", survivor, true);
        survivor.post_recv(5, {survivor.sge(0, kTransferBytes)});
        victim.send_and_die();
        survivor.expect_success(5, IBV_WC_RECV);
        EXPECT_EQ(first_difference(survivor.at(0), kTransferBytes, 7), -1);
    }
}

}  // namespace
}  // namespace urnic::e2e

int main(int argc, char** argv) {
    if (const std::string mode = argc == 3 ? argv[1] : ""; mode == "victim" || mode == "sender") {
        return urnic::e2e::run_victim(argv[2], mode == "sender");
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
