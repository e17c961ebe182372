// What an experiment gave, as text: one JSON document, and two CSV tables for spreadsheets.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiment/config_file.h"
#include "experiment/simulation.h"

namespace urnic::experiment {

struct Finished {
    const Run* run = nullptr;
    const Results* results = nullptr;
};

/// Jain's index of the goodputs of the flows that were there from warm-up to end: 1 when all are alike.
[[nodiscard]] double jain_index(const Results& results);
/// The part of a port's rate that was used after the warm-up.
[[nodiscard]] double utilisation(const Results& results, const PortResult& port);
/// The most used port of all.
[[nodiscard]] const PortResult& busiest_port(const Results& results);
/// The queue length that `part` of the samples after the warm-up do not pass, in bytes.
[[nodiscard]] std::uint64_t queue_quantile(const Results& results, const PortResult& port, double part);

/// With time series, or without.
[[nodiscard]] std::string to_json(std::span<const Finished> runs, bool with_series);
[[nodiscard]] std::string flows_csv(std::span<const Finished> runs);
[[nodiscard]] std::string ports_csv(std::span<const Finished> runs);
/// A few lines for a person.
[[nodiscard]] std::string summary_text(const Finished& run);

}  // namespace urnic::experiment
