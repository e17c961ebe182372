// Writes metrics in Prometheus' text format and as OpenMetrics at once. Samples are the same in both; what is
// said of a family is not.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/http/metrics_text.h"

namespace urnic::daemon {

/// kInfo: a gauge of 1 whose labels say something that does not change.
enum class MetricType : std::uint8_t { kGauge, kCounter, kInfo, kHistogram };

/// Values of a histogram that are not larger than `bound` and larger than that of the bucket before it.
struct HistogramBucket {
    double bound = 0;
    std::uint64_t count = 0;
};

class Exposition {
  public:
    /// All samples of a family follow. The name of a counter ends with _total, that of an info with _info;
    /// one that ends with _seconds or _bytes has that unit.
    void family(std::string_view name, MetricType type, std::string_view help);

    template <typename Value>
    void series(std::string_view name, std::string_view labels, Value value) {
        add(labels.empty() ? fmt::format("{} {}\n", name, value)
                           : fmt::format("{}{{{}}} {}\n", name, labels, value));
    }
    /// `above`: values that are larger than all bounds.
    void histogram(std::string_view name, std::string_view labels, std::span<const HistogramBucket> buckets,
                   std::uint64_t above, double sum);

    /// Ends the texts.
    [[nodiscard]] MetricsText take();

  private:
    void add(std::string_view both);

    MetricsText text_;
};

/// A value of a label, which may be a text of others, such as a program's name.
[[nodiscard]] std::string escaped_label(std::string_view text);

}  // namespace urnic::daemon
