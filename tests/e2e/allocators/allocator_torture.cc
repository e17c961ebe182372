// Threads allocate, check, fill and free memory, while a registration cache keeps what they registered: as
// caches of MPI and UCX do, regions outlive the memory that they were made for, whose pages the allocator
// gives back to the kernel and takes again. Every page of what calloc() gives must be zero, and what was
// written must stay. Runs with whatever allocator is preloaded: allocator_torture DEVICE ROUNDS
#include <infiniband/verbs.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::size_t kCachedRegions = 64;
constexpr std::size_t kBlocks = 48;  // of a thread
constexpr int kThreads = 3;

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::exit(2);
}

class RegistrationCache {
  public:
    explicit RegistrationCache(const char* device) {
        int count = 0;
        ibv_device** list = ibv_get_device_list(&count);
        for (int i = 0; i < count; ++i) {
            if (std::strcmp(ibv_get_device_name(list[i]), device) == 0) {
                context_ = ibv_open_device(list[i]);
            }
        }
        ibv_free_device_list(list);
        pd_ = context_ == nullptr ? nullptr : ibv_alloc_pd(context_);
        if (pd_ == nullptr) {
            die(device);
        }
    }
    ~RegistrationCache() {
        for (const auto& [start, region] : regions_) {
            ibv_dereg_mr(region);
        }
        ibv_dealloc_pd(pd_);
        ibv_close_device(context_);
    }
    RegistrationCache(const RegistrationCache&) = delete;
    RegistrationCache& operator=(const RegistrationCache&) = delete;

    /// Keeps the region, whoever owns the memory later. When the cache is full an old one goes, while nobody
    /// gives memory back (giving_back()): as in caches that hook munmap().
    void use(const void* at, std::size_t bytes, std::uint64_t random) {
        const auto start = reinterpret_cast<std::uint64_t>(at) & ~(kPageBytes - 1);
        const std::unique_lock guard(mutex_);
        const auto known = regions_.find(start);
        if (known != regions_.end() && known->second->length >= bytes + kPageBytes) {
            return;
        }
        const std::uint64_t end =
            (reinterpret_cast<std::uint64_t>(at) + bytes + kPageBytes - 1) & ~(kPageBytes - 1);
        ibv_mr* region = ibv_reg_mr(pd_, reinterpret_cast<void*>(start), end - start,  // NOLINT
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (region == nullptr) {
            die("ibv_reg_mr");
        }
        ++registered_;
        if (known != regions_.end()) {
            ibv_dereg_mr(known->second);
            known->second = region;
            return;
        }
        if (regions_.size() >= kCachedRegions) {
            auto victim = regions_.lower_bound(start ^ (random % (1U << 30U)));
            victim = victim == regions_.end() ? regions_.begin() : victim;
            ibv_dereg_mr(victim->second);
            regions_.erase(victim);
        }
        regions_.emplace(start, region);
    }
    [[nodiscard]] std::shared_lock<std::shared_mutex> giving_back() { return std::shared_lock(mutex_); }
    std::uint64_t registered() const { return registered_; }

  private:
    ibv_context* context_ = nullptr;
    ibv_pd* pd_ = nullptr;
    std::shared_mutex mutex_;
    std::map<std::uint64_t, ibv_mr*> regions_;
    std::uint64_t registered_ = 0;
};

std::atomic<std::uint64_t> callocs{0}, not_zero{0}, changed{0};

struct Block {
    std::uint64_t* at = nullptr;
    std::size_t words = 0;
    std::uint64_t seed = 0;
};

void fill(const Block& block) {
    for (std::size_t i = 0; i < block.words; ++i) {
        block.at[i] = block.seed + i;
    }
}
bool holds(const Block& block, std::size_t words) {
    for (std::size_t i = 0; i < words; ++i) {
        if (block.at[i] != block.seed + i) {
            return false;
        }
    }
    return true;
}

std::size_t some_words(std::mt19937_64& random) {
    // From 64 bytes to 4 MiB, each power of two as often.
    const std::size_t bytes = (64ULL << (random() % 17)) + random() % 512;
    return bytes / sizeof(std::uint64_t);
}

void allocate(Block& block, RegistrationCache& cache, std::mt19937_64& random) {
    block.words = some_words(random);
    block.seed = random() | 1U;
    const bool zeroed = random() % 4 != 0;
    block.at =
        static_cast<std::uint64_t*>(zeroed ? std::calloc(block.words, 8) : std::malloc(block.words * 8));
    if (block.at == nullptr) {
        die("calloc");
    }
    if (zeroed) {
        ++callocs;
        not_zero +=
            std::all_of(block.at, block.at + block.words, [](std::uint64_t word) { return word == 0; }) ? 0
                                                                                                        : 1;
    }
    fill(block);
    if (random() % 3 == 0) {
        cache.use(block.at, block.words * 8, random());
        changed += holds(block, block.words) ? 0 : 1;
    }
}

void resize(Block& block, RegistrationCache& cache, std::mt19937_64& random) {
    const std::size_t words = some_words(random);
    const auto guard = cache.giving_back();
    auto* at = static_cast<std::uint64_t*>(std::realloc(block.at, words * 8));
    if (at == nullptr) {
        die("realloc");
    }
    block.at = at;
    changed += holds(block, std::min(words, block.words)) ? 0 : 1;
    block.words = words;
    fill(block);
}

void torture(RegistrationCache& cache, std::uint64_t seed, int rounds) {
    std::mt19937_64 random(seed);
    std::vector<Block> blocks(kBlocks);
    for (int i = 0; i < rounds; ++i) {
        Block& block = blocks[random() % blocks.size()];
        if (block.at == nullptr) {
            allocate(block, cache, random);
            continue;
        }
        changed += holds(block, block.words) ? 0 : 1;
        if (random() % 4 == 0) {
            resize(block, cache, random);
            continue;
        }
        const auto guard = cache.giving_back();
        std::free(block.at);
        block = {};
        if (i % 64 == 0) {
            malloc_trim(0);
        }
    }
    for (const Block& block : blocks) {
        changed += block.at == nullptr || holds(block, block.words) ? 0 : 1;
        const auto guard = cache.giving_back();
        std::free(block.at);
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: allocator_torture DEVICE ROUNDS\n");
        return 2;
    }
    const int rounds = std::atoi(arguments[2]);
    RegistrationCache cache(arguments[1]);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back(
            [&cache, i, rounds] { torture(cache, 1000U + static_cast<unsigned>(i), rounds); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    std::printf("callocs %llu not_zero %llu changed %llu registered %llu\n",
                static_cast<unsigned long long>(callocs), static_cast<unsigned long long>(not_zero),
                static_cast<unsigned long long>(changed),
                static_cast<unsigned long long>(cache.registered()));
    return not_zero == 0 && changed == 0 ? 0 : 1;
}
