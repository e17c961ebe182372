// Experiments as TOML files.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiment/config.h"

namespace urnic::experiment {

/// What is wrong with an experiment's file: "FILE:LINE:COLUMN: what", or without a place where there is none.
class ConfigError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// One run of a file: with [sweep] there are several, each with one value of the swept key, and with
/// [[variant]] one for each.
struct Run {
    std::string label;  // "congestion.g = 0.01", or the variant's name; empty with neither
    bool is_variant = false;
    ExperimentConfig config;
};

/// Keys and their values: "topology.hosts", "4".
using Changes = std::vector<std::pair<std::string, std::string>>;

/// What a file says, with `changes` made to it first. `file` gives the experiment its name if the file has
/// none. Throws ConfigError.
[[nodiscard]] std::vector<Run> read_experiment(std::string_view text, const std::string& file,
                                               const Changes& changes);

}  // namespace urnic::experiment
