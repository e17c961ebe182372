// Experiments as TOML files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "experiment/config.h"
#include "experiment/table_reader.h"

namespace urnic::experiment {

/// One run of a file: with [sweep] there are several, each with one value of the swept key, and with
/// [[variant]] one for each.
struct Run {
    std::string label;  // "congestion.g = 0.01", or the variant's name; empty with neither
    bool is_variant = false;
    ExperimentConfig config;
};

/// What a file says, with `changes` ("topology.hosts", "4") made to it first; `name` is the experiment's name
/// if the file has none. Throws ConfigError, with the line where there is one.
[[nodiscard]] std::vector<Run> read_experiment(
    std::string_view text, const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& changes);

}  // namespace urnic::experiment
