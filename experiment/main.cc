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
#include <memory>

#include "experiment/config_file.h"
#include "experiment/plots.h"
#include "experiment/progress.h"
#include "experiment/report.h"
#include "experiment/simulation.h"
#include "observe/trace/engine_trace.h"
#include "observe/trace/network_trace.h"
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
  urnic experiment incast.toml --no-draw --set duration_us=500 --trace incast.ndjson; urnic view incast.ndjson
  urnic experiment trace.json        # draws results again, or what urnic cc trace has written

docs/experiments.md tells the keys of a file, what is simulated and what is not; examples lie in
experiment/scenarios.)";
constexpr int kExitOwnFailure = 125;

struct Options {
    fs::path file;
    fs::path out = ".";
    std::vector<std::string> changes;
    std::string seed;
    std::string trace;
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

/// The events of all QPs, as urnic trace has them, and of the network.
class TraceFile {
  public:
    explicit TraceFile(std::string path)
        : path_(std::move(path)), out_(path_, std::ios::binary | std::ios::trunc) {
        check();
    }
    void watch(Simulation& simulation) { simulation.watch(watcher_, network_); }
    void finish() {
        watcher_.settle();
        lines_.finish();
        check();
    }

  private:
    void check() {
        if (!out_) throw ConfigError(fmt::format("{} cannot be written: {}", path_, std::strerror(errno)));
    }

    std::string path_;
    std::ofstream out_;
    trace::JsonLines lines_{out_, "host"};
    trace::PacketTrace events_{lines_, {}};
    trace::EngineTrace watcher_{events_};
    trace::NetworkTrace network_{lines_, watcher_};
};

Results simulate(const Run& run, bool quiet, TraceFile* trace) {
    Simulation simulation(run.config);
    if (trace != nullptr) {
        trace->watch(simulation);
    }
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
    if (!options.trace.empty() && runs.size() != 1) {
        throw ConfigError(fmt::format(
            "--trace: {} has {} runs ([sweep], [[variant]]), and a trace is of one: give a file without them",
            options.file.string(), runs.size()));
    }
    fs::create_directories(options.out);
    std::unique_ptr<TraceFile> trace;
    if (!options.trace.empty()) {
        trace = std::make_unique<TraceFile>(options.trace);
    }
    std::vector<Results> results;
    std::vector<Finished> finished;
    results.reserve(runs.size());
    for (const Run& run : runs) {
        results.push_back(simulate(run, options.quiet, trace.get()));
        finished.push_back({&run, &results.back()});
        if (!options.quiet) {
            fmt::print("{}", summary_text(finished.back()));
        }
    }
    if (trace != nullptr) {
        trace->finish();
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
    app.option("--trace", options.trace,
               "the events of all QPs and of the network's ports go there, as urnic trace writes them, for "
               "urnic view")
        .type_name("FILE");
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
