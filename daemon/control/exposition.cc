#include "daemon/control/exposition.h"

namespace urnic::daemon {

namespace {

struct MetricTypeNames {
    std::string_view prometheus;
    std::string_view openmetrics;
    std::string_view suffix;  // of samples, which OpenMetrics does not take for a part of the family's name
};

constexpr MetricTypeNames names_of(MetricType type) {
    switch (type) {
        case MetricType::kCounter:
            return {"counter", "counter", "_total"};
        case MetricType::kInfo:
            return {"gauge", "info", "_info"};
        case MetricType::kHistogram:
            return {"histogram", "histogram", ""};
        default:
            return {"gauge", "gauge", ""};
    }
}

/// Of bounds: "64.0" in both formats, since the text of a label is the series' name.
std::string bound_text(double bound) {
    std::string text = fmt::format("{}", bound);
    if (text.find_first_of(".e") == std::string::npos) {
        text += ".0";
    }
    return text;
}

}  // namespace

std::string escaped_label(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '\\' || c == '"') {
            result += '\\';
        }
        const auto byte = static_cast<unsigned char>(c);
        result += byte < 0x20 || byte >= 0x7f ? '?' : c;
    }
    return result;
}

void Exposition::family(std::string_view name, MetricType type, std::string_view help) {
    const MetricTypeNames names = names_of(type);
    fmt::format_to(std::back_inserter(text_.prometheus), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                   names.prometheus);
    if (name.ends_with(names.suffix)) {
        name.remove_suffix(names.suffix.size());
    }
    const auto out = std::back_inserter(text_.openmetrics);
    fmt::format_to(out, "# TYPE {} {}\n", name, names.openmetrics);
    for (const std::string_view unit : {"seconds", "bytes"}) {
        if (name.ends_with(fmt::format("_{}", unit))) {
            fmt::format_to(out, "# UNIT {} {}\n", name, unit);
        }
    }
    fmt::format_to(out, "# HELP {} {}\n", name, help);
}

void Exposition::histogram(std::string_view name, std::string_view labels,
                           std::span<const HistogramBucket> buckets, std::uint64_t above, double sum) {
    // Made of the buckets alone, so that they agree while a worker counts on.
    std::uint64_t count = 0;
    for (const HistogramBucket& bucket : buckets) {
        count += bucket.count;
        add(fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound_text(bucket.bound), count));
    }
    count += above;
    add(fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, count));
    add(fmt::format("{}_sum{{{}}} {}\n", name, labels, sum));
    add(fmt::format("{}_count{{{}}} {}\n", name, labels, count));
}

void Exposition::add(std::string_view both) {
    text_.prometheus += both;
    text_.openmetrics += both;
}

MetricsText Exposition::take() {
    text_.openmetrics += "# EOF\n";
    return std::move(text_);
}

}  // namespace urnic::daemon
