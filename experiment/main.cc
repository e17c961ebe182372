// urnic-experiment: runs an experiment file in virtual time and writes what came of it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "experiment/config_file.h"
#include "experiment/plots.h"
#include "experiment/progress.h"
#include "experiment/report.h"
#include "experiment/simulation.h"
#include "os/command_line.h"

namespace urnic::experiment {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAbout =
    "Runs hosts, QPs and a network of switches in virtual time, as FILE.toml describes them, through the QPs "
    "that the daemon has. Writes NAME.json, NAME-flows.csv, NAME-ports.csv and pictures (SVG).";
constexpr const char* kFooter = R"(The same file and seed give the same bytes.

Examples:
  urnic experiment incast.toml
  urnic experiment incast.toml --out /tmp/incast --set topology.hosts=9 --set congestion.algorithm='"none"'
  urnic experiment incast.toml --no-draw --seed 7
  urnic experiment trace.json        # draws results again, or what urnic cc trace has written

docs/experiments.md tells the keys of a file, what is simulated and what is not; examples lie in
experiment/scenarios.)";
constexpr int kExitOwnFailure = 125;

struct Options {
    fs::path file;
    fs::path out = ".";
    std::vector<std::string> changes;
    std::string seed;
    bool no_draw = false;
    bool no_series = false;
    bool quiet = false;
};

std::string read_file(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (!in.is_open() || in.bad()) {
        throw ConfigError(fmt::format("{} cannot be read: {}", path.string(), std::strerror(errno)));
    }
    return text;
}

void write_file(const fs::path& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) {
        throw ConfigError(fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
    }
}

Changes changes_of(const Options& options) {
    Changes changes;
    for (const std::string& change : options.changes) {
        const std::size_t sign = change.find('=');
        if (sign == 0 || sign == std::string::npos) {
            throw ConfigError(fmt::format("--set {}: KEY=VALUE is wanted, switch.kmin_kb=40, say", change));
        }
        changes.emplace_back(change.substr(0, sign), change.substr(sign + 1));
    }
    if (!options.seed.empty()) {
        changes.emplace_back("seed", options.seed);
    }
    return changes;
}

Results simulate(const Run& run, bool quiet) {
    Simulation simulation(run.config);
    Progress progress(run.label.empty() ? run.config.name : run.label, quiet);
    constexpr TimeNs kSteps = 200;
    for (TimeNs step = 1; step <= kSteps; ++step) {
        simulation.run_until(run.config.duration_ns / kSteps * step);
        progress.show(static_cast<double>(step) / kSteps);
    }
    simulation.run_until(run.config.duration_ns);
    return simulation.results();
}

int run_program(const Options& options) {
    if (options.file.extension() == ".json") {
        (void)read_file(options.file);  // says why it cannot be
        fs::create_directories(options.out);
        draw(options.file, options.out);
        return 0;
    }
    const std::vector<Run> runs =
        read_experiment(read_file(options.file), options.file.string(), changes_of(options));
    fs::create_directories(options.out);
    std::vector<Results> results;
    std::vector<Finished> finished;
    results.reserve(runs.size());
    for (const Run& run : runs) {
        results.push_back(simulate(run, options.quiet));
        finished.push_back({&run, &results.back()});
        if (!options.quiet) {
            fmt::print("{}", summary_text(finished.back()));
        }
    }
    const fs::path base = options.out / runs[0].config.name;
    write_file(base.string() + ".json", to_json(finished, !options.no_series));
    if (!options.no_series) {
        write_file(base.string() + "-flows.csv", flows_csv(finished));
        write_file(base.string() + "-ports.csv", ports_csv(finished));
        if (!options.no_draw) {
            draw(base.string() + ".json", options.out);
        }
    }
    return 0;
}

int start(int argc, char** argv) {
    Options options;
    CommandLine app{kAbout, "urnic experiment"};
    app.footer(kFooter);
    app.option("FILE", options.file, "the experiment, in TOML; or results to draw, FILE.json").required();
    app.option("--out", options.out, "directory for the results; made if it is not there").shows_default();
    app.option("--set", options.changes, "KEY=VALUE: as if FILE said so; several may be given")
        .one_value_a_mention();
    app.option("--seed", options.seed, "another seed than the file's").non_negative();
    app.flag("--no-draw", options.no_draw, "no pictures, which need python3-matplotlib");
    app.flag("--no-series", options.no_series, "neither time series nor pictures: the summary alone");
    app.flag("--quiet", options.quiet, "neither progress nor summary on the terminal");
    if (const auto status = app.parse(argc, argv)) return *status == 0 ? 0 : kExitOwnFailure;
    return run_program(options);
}

}  // namespace
}  // namespace urnic::experiment

int main(int argc, char** argv) {
    try {
        return urnic::experiment::start(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "urnic experiment: %s\n", error.what());
        return urnic::experiment::kExitOwnFailure;
    }
}
