#include "bench/verbs/pairs.h"

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "bench/verbs/load.h"
#include "bench/verbs/side.h"

namespace urnic::bench {
namespace {

/// What one thread writes from, and to.
class Pair {
  public:
    Pair(std::uint32_t connections, bool apart) : from_("urnic0", connections), to_("urnic1", connections) {
        std::vector<std::uint32_t> senders = from_.numbers();
        std::vector<std::uint32_t> receivers = to_.numbers();
        if (apart) {
            // Sender i and receiver i+1, which the next worker has.
            std::rotate(receivers.begin(), receivers.begin() + 1, receivers.end());
        }
        from_.connect(to_.address(), receivers);
        if (apart) {
            std::rotate(senders.begin(), senders.end() - 1, senders.end());
        }
        to_.connect(from_.address(), senders);
    }

    [[nodiscard]] double run(std::uint32_t bytes, std::uint32_t in_flight, double seconds) const {
        const auto connections = static_cast<std::uint32_t>(from_.size());
        return WriteLoad(from_, to_.address(), Side::kBufferBytes / connections)
            .run(connections, bytes, in_flight, seconds);
    }

  private:
    Side from_;
    Side to_;
};

double run_all(const std::vector<std::unique_ptr<Pair>>& pairs, std::uint32_t bytes, std::uint32_t in_flight,
               double seconds) {
    std::vector<double> rates(pairs.size());
    std::barrier begin(static_cast<std::ptrdiff_t>(pairs.size()));
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < pairs.size(); ++i) {
            threads.emplace_back([&, i] {
                begin.arrive_and_wait();
                rates[i] = pairs[i]->run(bytes, in_flight, seconds);
            });
        }
    }
    return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace

int write_in_threads(std::uint32_t threads, std::uint32_t connections, bool apart) {
    std::vector<std::unique_ptr<Pair>> pairs;
    for (std::uint32_t i = 0; i < threads; ++i) {
        pairs.push_back(std::make_unique<Pair>(connections, apart));
    }
    std::printf("{\"threads\": %u, \"connections\": %u}\n", threads, connections);
    std::fflush(stdout);
    std::uint32_t bytes = 0;
    std::uint32_t in_flight = 0;
    double seconds = 0;
    while (std::cin >> bytes >> in_flight >> seconds) {
        if (bytes == 0 || bytes > Side::kBufferBytes / connections || in_flight < WriteLoad::kBatch ||
            in_flight > Side::kQueueDepth || !(seconds > 0)) {
            errno = EINVAL;
            give_up("BYTES IN_FLIGHT SECONDS");
        }
        std::printf("{\"messages_per_second\": %.1f}\n", run_all(pairs, bytes, in_flight, seconds));
        std::fflush(stdout);
    }
    return 0;
}

}  // namespace urnic::bench
