// What a comparison program found out, as one line of JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace urnic::bench {

/// Filled by a child process in shared memory.
struct Results {
    static constexpr std::size_t kMaxSamples = 1U << 20U;

    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t elapsed_ns = 0;
    std::uint64_t sample_count = 0;
    std::uint32_t samples[kMaxSamples];  // one-way times in ns, half a round trip each

    void add_sample(std::uint64_t round_trip_ns) {
        if (sample_count < kMaxSamples) {
            samples[sample_count++] =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(round_trip_ns / 2, ~0U));
        }
    }
};

/// Prints `{"mode": ..., ...}`: throughput if bytes were counted, one-way latencies if samples were taken.
void print_json(const char* mode, Results& results);

}  // namespace urnic::bench
