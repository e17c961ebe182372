// Threads change memory in every way a program can while it is registered and deregistered in a loop. No
// update may be lost. That the test would see one is shown first: without write protection updates do get
// lost.
#include <fcntl.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support.h"

namespace urnic::memory {
namespace {

constexpr std::size_t kPages = 256;
constexpr std::size_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);
constexpr std::size_t kReadPages = 2;  // the last pages of the range are the target of read(2)
constexpr int kPlainWriters = 2;
constexpr int kAtomicWriters = 2;
constexpr std::size_t kAtomicWord = 128;  // in each page; the plain writers' words are 0 and 64
constexpr std::size_t kForkersWord = 256;
constexpr auto kPatience = std::chrono::minutes(3);

class Torture {
  public:
    explicit Torture(const RegistrySettings& settings) { apply_for_test(settings); }
    ~Torture() { apply_for_test(RegistrySettings{}); }
    Torture(const Torture&) = delete;
    Torture& operator=(const Torture&) = delete;

    /// Registers and deregisters for at least so many rounds; with `until_loss`, until an update was lost.
    void run(std::uint64_t min_rounds, bool until_loss) {
        std::vector<std::thread> threads;
        threads.reserve(kPlainWriters + kAtomicWriters + 1);
        for (int i = 0; i < kPlainWriters; ++i) {
            threads.emplace_back([this, i] { write_plainly(static_cast<std::size_t>(i) * 64); });
        }
        for (int i = 0; i < kAtomicWriters; ++i) {
            threads.emplace_back([this] { write_atomically(); });
        }
        threads.emplace_back([this] { read_into_range(); });
        const auto give_up = std::chrono::steady_clock::now() + kPatience;
        while (rounds_ < min_rounds || (until_loss && lost_ == 0)) {
            one_round();
            if (until_loss && std::chrono::steady_clock::now() > give_up) {
                break;
            }
        }
        stop_ = true;
        for (std::thread& thread : threads) {
            thread.join();
        }
        std::uint64_t in_memory = 0;
        for (std::size_t page = 0; page < kPages - kReadPages; ++page) {
            in_memory += *word(page, kAtomicWord);
        }
        if (in_memory != atomic_adds_) {
            ++lost_;
        }
    }

    std::uint64_t lost() const { return lost_; }
    std::uint64_t rounds() const { return rounds_; }
    std::uint64_t updates() const { return updates_; }
    std::uint64_t refused_reads() const { return refused_reads_; }
    std::uint64_t not_converted() const { return not_converted_; }

  private:
    std::uint64_t* word(std::size_t page, std::size_t index) const {
        return reinterpret_cast<std::uint64_t*>(area_.data()) + page * kWordsPerPage + index;
    }

    void one_round() {
        const Registration whole = convert(area_.address(), area_.size(), true);
        const Registration part = convert(area_.address() + 3 * kPageBytes + 17, 20 * kPageBytes, true);
        not_converted_ +=
            static_cast<std::uint64_t>(!whole.converted) + static_cast<std::uint64_t>(!part.converted);
        if (whole.converted) {
            // What the daemon does for an atomic operation of a peer.
            const DaemonView view(area_.address(), area_.size());
            auto* first = reinterpret_cast<std::uint64_t*>(view.data()) + kAtomicWord;
            for (int i = 0; i < 100; ++i) {
                std::atomic_ref(*first).fetch_add(1);
            }
            atomic_adds_ += 100;
        }
        if (rounds_ % 16 == 7) {
            fork_once();
        }
        release(whole);
        release(part);
        ++rounds_;
    }

    /// The child changes everything; nothing of it may be seen here.
    void fork_once() {
        volatile std::uint64_t* mine = word(5, kForkersWord);
        *mine = rounds_;
        const pid_t child = ::fork();
        if (child == 0) {
            const bool as_before = *mine == rounds_;
            std::memset(area_.data(), 0xee, area_.size());
            ::_exit(as_before ? 0 : 1);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        lost_ += static_cast<std::uint64_t>(status != 0 || *mine != rounds_);
    }

    void write_plainly(std::size_t index) {
        std::array<std::uint64_t, kPages - kReadPages> expected{};
        std::uint64_t done = 0;
        while (!stop_) {
            for (std::size_t page = 0; page < expected.size(); ++page) {
                volatile std::uint64_t* at = word(page, index);
                lost_ += static_cast<std::uint64_t>(*at != expected[page]);
                for (int i = 0; i < 50; ++i) {
                    *at = *at + 1;
                }
                expected[page] += 50;
                lost_ += static_cast<std::uint64_t>(*at != expected[page]);
                expected[page] = *at;
                done += 50;
            }
        }
        updates_ += done;
    }

    void write_atomically() {
        std::uint64_t done = 0;
        while (!stop_) {
            for (std::size_t page = 0; page < kPages - kReadPages; ++page) {
                for (int i = 0; i < 20; ++i) {
                    std::atomic_ref(*word(page, kAtomicWord)).fetch_add(1);
                }
                done += 20;
            }
        }
        atomic_adds_ += done;
        updates_ += done;
    }

    void read_into_range() {
        int pipe[2] = {-1, -1};
        if (::pipe2(pipe, O_CLOEXEC) != 0) {
            std::perror("pipe2");
            std::abort();
        }
        std::array<std::uint64_t, kReadPages * kWordsPerPage> sent{};
        std::uint64_t next = 0;
        while (!stop_) {
            for (std::uint64_t& value : sent) {
                value = ++next;
            }
            if (::write(pipe[1], sent.data(), sizeof(sent)) != sizeof(sent)) {
                std::perror("write");
                std::abort();
            }
            auto* target = reinterpret_cast<char*>(word(kPages - kReadPages, 0));
            for (std::size_t got = 0; got < sizeof(sent);) {
                const ssize_t bytes = ::read(pipe[0], target + got, sizeof(sent) - got);
                refused_reads_ += static_cast<std::uint64_t>(bytes < 0);
                got += bytes < 0 ? 0 : static_cast<std::size_t>(bytes);
            }
            lost_ += static_cast<std::uint64_t>(std::memcmp(target, sent.data(), sizeof(sent)) != 0);
            updates_ += sent.size();
        }
        ::close(pipe[0]);
        ::close(pipe[1]);
    }

    Area area_{kPages * kPageBytes};
    std::atomic<bool> stop_{false};
    std::atomic<std::uint64_t> lost_{0}, updates_{0}, atomic_adds_{0}, refused_reads_{0};
    std::uint64_t rounds_ = 0, not_converted_ = 0;
};

/// How many rounds it takes to lose an update when that move is not protected.
std::uint64_t rounds_to_lose(const MoverSettings& mover) {
    Torture unprotected({.mover = mover});
    unprotected.run(20, true);
    EXPECT_GT(unprotected.lost(), 0U)
        << "this test cannot see lost updates on this machine: " << unprotected.rounds() << " rounds, "
        << unprotected.updates() << " updates";
    std::printf("without protection: %llu times an update was lost in %llu rounds\n",
                static_cast<unsigned long long>(unprotected.lost()),
                static_cast<unsigned long long>(unprotected.rounds()));
    return unprotected.rounds();
}

void expect_nothing_lost(const RegistrySettings& settings, std::uint64_t rounds) {
    Torture protected_run(settings);
    protected_run.run(rounds, false);
    std::printf("with protection: %llu updates in %llu rounds\n",
                static_cast<unsigned long long>(protected_run.updates()),
                static_cast<unsigned long long>(protected_run.rounds()));
    EXPECT_EQ(protected_run.lost(), 0U);
    EXPECT_EQ(protected_run.not_converted(), 0U);
    if (probe_userfault().can_block_kernel) {
        EXPECT_EQ(protected_run.refused_reads(), 0U);
    }
}

TEST(Torture, NoUpdateIsLost) {
    const std::uint64_t rounds =
        std::max(rounds_to_lose({.protect_to_file = false}), rounds_to_lose({.protect_to_private = false}));
    expect_nothing_lost({}, std::max<std::uint64_t>(4 * rounds, 300));
    expect_nothing_lost({.text_maps_only = true, .protects_untouched = false},
                        std::max<std::uint64_t>(rounds, 50));
}

TEST(Torture, NoUpdateOfAnOrdinaryUserIsLost) {
    EXPECT_TRUE(in_child([] {
        if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) {
            return false;
        }
        expect_nothing_lost({}, 50);
        return !testing::Test::HasFailure();
    }));
}

}  // namespace
}  // namespace urnic::memory
