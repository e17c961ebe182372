// What came of an experiment, for tests.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/config_file.h"
#include "experiment/report.h"
#include "experiment/simulation.h"

namespace urnic::experiment {

/// Runs it.
class Outcome {
  public:
    explicit Outcome(std::string_view text, const Changes& changes = {})
        : runs_(read_experiment(text, "test", changes)) {
        for (const Run& run : runs_) {
            Simulation simulation(run.config);
            simulation.run_until(run.config.duration_ns);
            results_.push_back(simulation.results());
        }
    }
    [[nodiscard]] const Results& results(std::size_t run = 0) const { return results_[run]; }
    [[nodiscard]] double gbit(std::size_t flow, std::size_t run = 0) const {
        const Results& results = results_[run];
        return 8.0 * static_cast<double>(results.flows[flow].steady_bytes) /
               static_cast<double>(runs_[run].config.duration_ns - results.steady_from_ns);
    }
    [[nodiscard]] const PortResult& port(const std::string& name, std::size_t run = 0) const {
        for (const PortResult& port : results_[run].ports) {
            if (port.name == name) {
                return port;
            }
        }
        throw std::runtime_error("no port " + name);
    }
    [[nodiscard]] std::string json() const { return to_json(finished(), true); }
    [[nodiscard]] std::string ports_csv() const { return experiment::ports_csv(finished()); }
    [[nodiscard]] std::string summary() const { return summary_text(finished()[0]); }

  private:
    [[nodiscard]] std::vector<Finished> finished() const {
        std::vector<Finished> all;
        for (std::size_t i = 0; i < runs_.size(); ++i) {
            all.push_back({&runs_[i], &results_[i]});
        }
        return all;
    }
    std::vector<Run> runs_;
    std::vector<Results> results_;
};

}  // namespace urnic::experiment
