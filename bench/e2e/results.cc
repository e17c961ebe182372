#include "bench/e2e/results.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace urnic::bench {

void print_json(const char* mode, Results& results) {
    nlohmann::ordered_json json;
    json["mode"] = mode;
    json["messages"] = results.messages;
    json["elapsed_ns"] = results.elapsed_ns;
    const double seconds = static_cast<double>(results.elapsed_ns) * 1e-9;
    json["messages_per_second"] = static_cast<double>(results.messages) / seconds;
    if (results.bytes != 0) {
        json["bytes_per_second"] = static_cast<double>(results.bytes) / seconds;
    }
    if (results.sample_count != 0) {
        std::uint32_t* end = results.samples + results.sample_count;
        std::sort(results.samples, end);
        json["one_way_ns"] = {{"median", results.samples[results.sample_count / 2]},
                              {"p99", results.samples[results.sample_count * 99 / 100]},
                              {"least", results.samples[0]}};
    }
    std::printf("%s\n", json.dump().c_str());
}

}  // namespace urnic::bench
