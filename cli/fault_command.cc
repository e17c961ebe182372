#include "cli/fault_command.h"

#include <fmt/core.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "cli/daemon_client.h"
#include "cli/launch_error.h"
#include "cli/status.h"

namespace urnic::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFaultFooter =
    R"(Faults are asked in the order in which they were added; each sees what the earlier ones left.
Only root and the daemon's own user may inject faults.

Examples:
  urnic fault add drop --probability 0.01 --seed 7
  urnic fault add drop --qpn 0x11 --psn 4 --iter 1
  urnic fault load faults.json
  urnic fault list
  urnic fault clear)";

constexpr const char* kAddFooter =
    R"(A packet is hit when it agrees with every option given. Without --iter, --probability and --count
all of those are hit. Times are rounded to what the daemon's timers do, about a microsecond.

Types:
  drop        it is lost
  corrupt     one bit flips: anywhere in the frame, or where --offset says
  ecn         it is marked Congestion Experienced
  delay       it is held back for --delay-us
  duplicate   a copy follows at once, or --delay-us later
  reorder     it is held back until --packets later packets to the same QP went by (default 1), at most for
              --delay-us (default 1000))";

/// An option of `add` and the key of the event it becomes.
struct EventOption {
    const char* name;
    const char* key;
    const char* type;
    const char* help;
};
constexpr EventOption kEventOptions[] = {
    {"--device", "device", "NAME", "only packets of this RNIC (default: of every one)"},
    {"--direction", "direction", "tx|rx|both", "as the RNIC sees it (default: tx)"},
    {"--qpn", "qpn", "N", "only packets to this QP (BTH DestQP)"},
    {"--psn", "psn", "N", "only packets with this PSN"},
    {"--opcode", "opcode", "N|NAME", "only packets with this opcode, for example 0x0a or \"RC WRITE Only\""},
    {"--iter", "iter", "N", "only the Nth of the packets that the options above choose, counted from 1"},
    {"--probability", "probability", "P", "each with this probability, greater than 0 and at most 1"},
    {"--seed", "seed", "N", "of the probability and of random offsets: the same seed, the same choice"},
    {"--count", "count", "N", "at most so many"},
    {"--offset", "offset", "N|any|payload",
     "corrupt: a bit of this byte of the frame, or of any, or of the payload"},
    {"--delay-us", "delay-us", "N", "microseconds"},
    {"--packets", "packets", "N", "reorder: how many go by"},
};

/// A number in decimal or 0x... hexadecimal, a real number, or a word; the daemon says what is wrong with it.
Json value_of(const std::string& text) {
    const bool hex = text.starts_with("0x") || text.starts_with("0X");
    const char* const begin = text.data() + (hex ? 2 : 0);
    const char* const end = text.data() + text.size();
    std::int64_t number = 0;
    const auto whole = std::from_chars(begin, end, number, hex ? 16 : 10);
    if (whole.ec == std::errc{} && whole.ptr == end) return number;
    double real = 0;
    const auto fraction = std::from_chars(text.data(), end, real);
    if (fraction.ec == std::errc{} && fraction.ptr == end) return real;
    return text;
}

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    errno = 0;
    if (!file || (!(text << file.rdbuf()) && errno != 0)) {
        throw LaunchError(
            fmt::format("cannot read {}: {}", path, std::strerror(errno != 0 ? errno : ENOENT)));
    }
    return text.str();
}

std::size_t count_of(const std::string& text) {
    const Json faults = Json::parse(text, nullptr, false);
    return faults.is_object() && faults.contains("faults") ? faults["faults"].size() : 0;
}

}  // namespace

struct FaultCommand::Definition {
    Command fault;
    Command list;
    Command add;
    Command load;
    Command remove;
    Command clear;
    std::string socket = default_socket().string();
    bool json = false;
    std::string type;
    std::vector<std::string> values = std::vector<std::string>(std::size(kEventOptions));
    std::string file;
    std::vector<std::uint32_t> ids;

    [[nodiscard]] Command command(const char* name, const char* help) {
        const Command made = fault.command(name, help);
        made.option("--socket", socket, "control socket of the daemon, or the directory it is in")
            .type_name("PATH")
            .shows_default();
        return made;
    }
    void show() const;
    [[nodiscard]] std::string event() const;
};

FaultCommand::FaultCommand(const Command& app) : definition_(std::make_unique<Definition>()) {
    Definition& d = *definition_;
    d.fault = app.command("fault", "Injects faults into the packets of a running daemon.");
    d.fault.requires_command();
    d.fault.footer(kFaultFooter);
    d.list = d.command("list", "Lists the faults in force, with the packets each has seen and hit.");
    d.list.flag("--json", d.json, "print JSON");
    d.add = d.command("add", "Adds one fault.");
    d.add.footer(kAddFooter);
    d.add.option("TYPE", d.type, "drop, corrupt, ecn, delay, duplicate or reorder").required();
    for (std::size_t i = 0; i < std::size(kEventOptions); ++i) {
        const EventOption& option = kEventOptions[i];
        d.add.option(option.name, d.values[i], option.help).type_name(option.type);
    }
    d.load = d.command("load", "Adds the faults of a JSON file: all of them, or none when one is wrong.");
    d.load.option("FILE", d.file, "a list of events such as {\"type\": \"drop\", \"psn\": 4}").required();
    d.remove = d.command("remove", "Removes faults by their numbers.");
    d.remove.option("ID", d.ids, "numbers that list shows").required();
    d.clear = d.command("clear", "Removes all faults.");
}

FaultCommand::~FaultCommand() = default;

bool FaultCommand::parsed() const { return definition_->fault.parsed(); }

std::string FaultCommand::Definition::event() const {
    Json event = {{"type", type}};
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!values[i].empty()) event[kEventOptions[i].key] = value_of(values[i]);
    }
    return Json::array({event}).dump();
}

void FaultCommand::Definition::show() const {
    const std::string text = fetch_faults(control_socket(socket));
    if (json) {
        fmt::print("{}", text);
    } else if (count_of(text) == 0) {
        fmt::print("no faults\n");
    } else {
        fmt::print("{}", status_tables(text).substr(1));
    }
}

void FaultCommand::run() const {
    const Definition& d = *definition_;
    if (d.list.parsed()) {
        d.show();
        return;
    }
    const std::filesystem::path socket = control_socket(d.socket);
    if (d.add.parsed()) add_faults(socket, d.event(), "urnic fault add");
    if (d.load.parsed()) add_faults(socket, read_file(d.file), d.file);
    if (d.clear.parsed()) clear_faults(socket);
    for (const std::uint32_t id : d.ids) remove_fault(socket, id);
}

}  // namespace urnic::cli
