#include "cli/top_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "cli/launch_error.h"
#include "cli/status_troubles.h"
#include "cli/units.h"

namespace urnic::cli {
namespace {

using TopJson = nlohmann::ordered_json;

struct Column {
    const char* name;
    std::size_t width;
    bool is_number;  // the largest first, at the right edge
};

// Together 80 characters with the mark of the column that the rows are sorted by, and a blank between two.
constexpr std::array kRnicColumns{
    Column{"RNIC", 11, false},   Column{"port", 7, false}, Column{"sent", 9, true},
    Column{"received", 9, true}, Column{"pkt/s", 6, true}, Column{"drop/s", 7, true},
    Column{"resent/s", 9, true}, Column{"RNR/s", 6, true}, Column{"norecv/s", 8, true},
};
constexpr std::array kQpColumns{
    Column{"RNIC", 11, false}, Column{"QP", 8, true},      Column{"type", 8, false},
    Column{"state", 6, false}, Column{"peer QP", 8, true}, Column{"out/s", 6, true},
    Column{"in/s", 6, true},   Column{"process", 8, true}, Column{"program", 11, false},
};

constexpr std::array<std::string_view, 16> kHelp{
    "q              quit",
    "left, right    choose the table of RNICs or that of QPs",
    "s, r           sort it by the next column (*); reverse the order",
    "up, down       show earlier and later rows; also page up, page down",
    "p              pause and continue",
    "h              this help",
    "",
    "sent, received bytes on the wire      pkt/s    packets sent and received",
    "drop/s         packets dropped here, for whatever reason",
    "resent/s       request packets that were sent again",
    "RNR/s          RNR NAKs of peers: QPs here wait for receives there",
    "norecv/s       messages that found no receive here",
    "out/s, in/s    PSNs sent and expected: packets; a READ request counts as many",
    "               as it has responses",
    "",
    "urnic status counters says why packets are dropped.",
};

struct Cell {
    std::string text;
    double number = 0;
};
using Cells = std::vector<Cell>;

/// Bytes for a terminal: one '?' for each character that is not printable ASCII.
std::string printable(std::string_view text) {
    std::string out;
    for (const char byte : text) {
        const auto value = static_cast<unsigned char>(byte);
        if ((value & 0xc0U) == 0x80U) continue;  // a character continues
        out += value >= 0x20 && value < 0x7f ? byte : '?';
    }
    return out;
}

Cell text_cell(const TopJson& object, const char* name) {
    return {printable(object.at(name).get<std::string>())};
}

Cell number_cell(const TopJson& object, const char* name) {
    const std::uint64_t number = status_number(object, name);
    return {std::to_string(number), static_cast<double>(number)};
}

/// Sorted below what is 0.
Cell unknown_cell() { return {"-", -1}; }

/// The entry of `list` that has the same members of those names; null: there is none.
const TopJson* same_entry(const TopJson& list, const TopJson& entry, std::span<const char* const> names) {
    for (const TopJson& other : list) {
        if (std::all_of(names.begin(), names.end(),
                        [&](const char* name) { return other.at(name) == entry.at(name); })) {
            return &other;
        }
    }
    return nullptr;
}

/// Packets that somebody misses: not those that were for others on the same Ethernet.
std::uint64_t drops(const TopJson& device) {
    std::uint64_t sum = status_number(device.at("port"), "rx_missed");
    for (const auto& [name, value] : device.at("counters").items()) {
        const bool is_foreign =
            name == "drop_not_roce" || name == "drop_not_for_us" || name == "drop_neighbour_msgs";
        if (name.starts_with("drop_") && !is_foreign) sum += status_number(device.at("counters"), name);
    }
    return sum;
}

Cells rnic_cells(const TopJson& device, const TopSample& sample) {
    static constexpr std::array kName{"name"};
    const TopJson* before =
        sample.earlier.is_object() ? same_entry(sample.earlier.at("devices"), device, kName) : nullptr;
    const auto rate = [&](const auto& count, const auto& text) {
        if (before == nullptr || sample.seconds <= 0) return unknown_cell();
        const std::uint64_t now = count(device);
        const std::uint64_t then = count(*before);
        if (now < then) return unknown_cell();
        const double per_s = static_cast<double>(now - then) / sample.seconds;
        return Cell{text(per_s), per_s};
    };
    const auto counter = [](const char* name, const char* other = "") {
        return [name, other](const TopJson& of) {
            return status_number(of.at("counters"), name) + status_number(of.at("counters"), other);
        };
    };
    return {text_cell(device, "name"),
            text_cell(device.at("port"), "state"),
            rate(counter("sent_bytes"), rate_text),
            rate(counter("rcvd_bytes"), rate_text),
            rate(counter("sent_pkts", "rcvd_pkts"), count_text),
            rate(drops, count_text),
            rate(counter("retrans_pkts"), count_text),
            rate(counter("rnr_nak_retry_err"), count_text),
            rate(counter("out_of_buffer"), count_text)};
}

/// The QPs of an answer by RNIC and number: there are thousands.
class KnownQps {
  public:
    explicit KnownQps(const TopJson& status) {
        if (!status.is_object()) return;
        for (const TopJson& client : status.at("clients")) {
            for (const TopJson& qp : client.at("qps")) entries_.push_back({key(qp), &qp});
        }
        std::sort(entries_.begin(), entries_.end(),
                  [](const Entry& left, const Entry& right) { return left.key < right.key; });
    }
    /// Null: it was not there.
    [[nodiscard]] const TopJson* find(const TopJson& qp) const {
        const auto wanted = key(qp);
        const auto found = std::lower_bound(entries_.begin(), entries_.end(), wanted,
                                            [](const Entry& entry, const Key& of) { return entry.key < of; });
        return found != entries_.end() && found->key == wanted ? found->qp : nullptr;
    }

  private:
    using Key = std::pair<std::string, std::uint64_t>;
    struct Entry {
        Key key;
        const TopJson* qp;
    };
    static Key key(const TopJson& qp) {
        return {qp.at("device").get<std::string>(), status_number(qp, "qpn")};
    }

    std::vector<Entry> entries_;
};

/// PSNs have 24 bits. One that went back by less than half of them was set anew.
Cell psn_rate(const TopJson& qp, const TopJson* before, const char* name, double seconds) {
    if (before == nullptr || seconds <= 0) return unknown_cell();
    const std::uint64_t ahead = (status_number(qp, name) - status_number(*before, name)) & 0xff'ffffU;
    if (ahead >= 0x80'0000U) return unknown_cell();
    const double per_s = static_cast<double>(ahead) / seconds;
    return {count_text(per_s), per_s};
}

/// `name` of an RNIC or of that of a QP; every one is of "".
bool is_of_rnic(const TopJson& object, const char* name, const std::string& device) {
    return device.empty() || object.at(name) == device;
}

std::vector<Cells> rnic_rows(const TopSample& sample, const std::string& device) {
    std::vector<Cells> rows;
    for (const TopJson& one : sample.now.at("devices")) {
        if (is_of_rnic(one, "name", device)) rows.push_back(rnic_cells(one, sample));
    }
    return rows;
}

std::vector<Cells> qp_rows(const TopSample& sample, const std::string& device) {
    const KnownQps earlier(sample.earlier);
    std::vector<Cells> rows;
    for (const TopJson& client : sample.now.at("clients")) {
        for (const TopJson& qp : client.at("qps")) {
            if (!is_of_rnic(qp, "device", device)) continue;
            const TopJson* const before = earlier.find(qp);
            rows.push_back({text_cell(qp, "device"), number_cell(qp, "qpn"), text_cell(qp, "type"),
                            text_cell(qp, "state"), number_cell(qp, "peer_qpn"),
                            psn_rate(qp, before, "sq_psn", sample.seconds),
                            psn_rate(qp, before, "rq_psn", sample.seconds), number_cell(client, "pid"),
                            text_cell(client, "program")});
        }
    }
    return rows;
}

std::size_t count_rnics(const TopJson& status, const std::string& device) {
    return device.empty() ? status.at("devices").size() : 1;
}

std::size_t count_qps(const TopJson& status, const std::string& device) {
    std::size_t count = 0;
    for (const TopJson& client : status.at("clients")) {
        const TopJson& qps = client.at("qps");
        count += static_cast<std::size_t>(std::count_if(
            qps.begin(), qps.end(), [&](const TopJson& qp) { return is_of_rnic(qp, "device", device); }));
    }
    return count;
}

/// One line; what is longer than its column is cut.
std::string row_text(std::span<const Column> columns, const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const std::string cell = cells[i].substr(0, columns[i].width);
        line += i == 0 ? "" : " ";
        line += columns[i].is_number ? fmt::format("{:>{}}", cell, columns[i].width)
                                     : fmt::format("{:<{}}", cell, columns[i].width);
    }
    return line;
}

std::string head_text(std::span<const Column> columns, std::size_t sorted_by) {
    std::vector<std::string> names;
    for (const Column& column : columns) {
        names.push_back((names.size() == sorted_by ? "*" : "") + std::string(column.name));
    }
    return row_text(columns, names);
}

std::string title_text(const TopJson& status, const std::string& device, bool is_paused) {
    const TopJson& daemon = status.at("daemon");
    std::string title = fmt::format(
        "urnicd {}, process {}, up {}; {}, {}", printable(daemon.at("version").get<std::string>()),
        status_number(daemon, "pid"), duration_text(status_number(daemon, "uptime_seconds")),
        device.empty() ? plural(count_rnics(status, device), "RNIC", "RNICs") : printable(device),
        plural(count_qps(status, device), "QP", "QPs"));
    if (daemon.contains("objects_of_uid")) {
        title += fmt::format(" of uid {}", status_number(daemon, "objects_of_uid"));
    }
    return title + (is_paused ? "  PAUSED" : "");
}

constexpr const char* kKeysLine = "q quit  s sort  r reverse  p pause  h help  arrows: scroll, other table";

}  // namespace

void TopPage::press(Key key) {
    Look& look = looks_[chosen_];
    switch (key) {
        case Key::kUp:
            look.first -= std::min<std::size_t>(look.first, 1);
            break;
        case Key::kDown:
            ++look.first;  // lines() knows how far it goes
            break;
        case Key::kPageUp:
            look.first -= std::min(look.first, look.page);
            break;
        case Key::kPageDown:
            look.first += look.page;
            break;
        case Key::kOtherTable:
            chosen_ = chosen_ == kRnics ? kQps : kRnics;
            break;
        case Key::kSort:
            look.sorted_by =
                (look.sorted_by + 1) % (chosen_ == kRnics ? kRnicColumns.size() : kQpColumns.size());
            look.is_reversed = false;
            look.first = 0;
            break;
        case Key::kReverse:
            look.is_reversed = !look.is_reversed;
            break;
        case Key::kPause:
            is_paused_ = !is_paused_;
            break;
        case Key::kHelp:
            is_help_ = !is_help_;
            break;
    }
}

void TopPage::check_device(const TopJson& status) const {
    if (device_.empty()) return;
    std::string known;
    for (const TopJson& one : status.value("devices", TopJson::array())) {
        const auto name = one.value("name", "");
        if (name == device_) return;
        known += (known.empty() ? "" : ", ") + name;
    }
    throw LaunchError(fmt::format("there is no RNIC {}: the daemon has {}", device_, known));
}

void TopPage::add_table(std::vector<TopLine>& to, Table table, const TopSample& sample, std::size_t rows) {
    const std::span<const Column> columns =
        table == kRnics ? std::span<const Column>(kRnicColumns) : std::span<const Column>(kQpColumns);
    std::vector<Cells> all = table == kRnics ? rnic_rows(sample, device_) : qp_rows(sample, device_);
    Look& look = looks_[table];
    std::stable_sort(all.begin(), all.end(), [&](const Cells& one, const Cells& another) {
        const Cell& left = (look.is_reversed ? another : one)[look.sorted_by];
        const Cell& right = (look.is_reversed ? one : another)[look.sorted_by];
        return columns[look.sorted_by].is_number ? left.number > right.number : left.text < right.text;
    });
    look.page = std::max<std::size_t>(rows, 1);
    look.first = std::min(look.first, all.size() - std::min(all.size(), rows));
    to.push_back({head_text(columns, look.sorted_by),
                  table == chosen_ ? TopLine::Style::kChosenHead : TopLine::Style::kHead});
    for (std::size_t i = look.first; i < std::min(all.size(), look.first + rows); ++i) {
        std::vector<std::string> texts;
        for (const Cell& cell : all[i]) texts.push_back(cell.text);
        to.push_back({row_text(columns, texts)});
    }
    if (all.empty() && rows != 0) to.push_back({table == kRnics ? "no RNIC" : "no QP"});
}

std::vector<TopLine> TopPage::page(const TopSample& sample, std::size_t height) {
    // Title, two heads, a line between the tables, keys.
    constexpr std::size_t kAround = 5;
    // With less than this the chosen table alone is shown, with its head.
    constexpr std::size_t kLeastForBoth = kAround + 4;
    std::vector<TopLine> lines{{title_text(sample.now, device_, is_paused_), TopLine::Style::kTitle}};
    if (is_help_) {
        for (const std::string_view text : kHelp) lines.push_back({std::string(text)});
        lines.resize(std::min(lines.size(), height - std::min<std::size_t>(height, 1)));
    } else if (height < kLeastForBoth) {
        add_table(lines, chosen_, sample, height - std::min<std::size_t>(height, 3));
    } else {
        const std::size_t rows = height - kAround;
        const std::size_t num_qps = std::max<std::size_t>(count_qps(sample.now, device_), 1);
        const std::size_t rnics =
            std::min(count_rnics(sample.now, device_), rows - std::min(num_qps, rows - rows / 2));
        add_table(lines, kRnics, sample, rnics);
        lines.emplace_back();
        add_table(lines, kQps, sample, rows - rnics);
    }
    while (lines.size() + 1 < height) lines.emplace_back();
    if (lines.size() < height) lines.push_back({kKeysLine, TopLine::Style::kTitle});
    return lines;
}

std::vector<TopLine> TopPage::lines(const TopSample& sample, std::size_t width, std::size_t height) {
    try {
        std::vector<TopLine> lines = page(sample, height);
        if (lines.size() > height) lines.resize(height);
        for (TopLine& line : lines) {
            if (line.text.size() > width) line.text.resize(width);
        }
        return lines;
    } catch (const TopJson::exception&) {
        throw LaunchError("the daemon's status is not that of this release: use the urnic of its release");
    }
}

}  // namespace urnic::cli
