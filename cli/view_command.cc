#include "cli/view_command.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "cli/captured_frame.h"
#include "cli/decode/capture_reader.h"
#include "cli/launch_error.h"
#include "cli/private_file.h"
#include "observe/trace/packet_trace.h"
#include "observe/view/event_log.h"
#include "observe/view/page.h"

namespace urnic::cli {

namespace {

constexpr const char* kViewFooter =
    R"(FILE is one of urnic trace, or a capture file. The page is one HTML file, which a browser opens and which needs
no network: an overview of the QPs, and of each the PSNs over time with what was lost, sent again and waited
for, packets on their way, rate, messages, and in sentences what is wrong; of experiments the ports of the
network, too, with queues, marks, drops, pauses and waits for credit. --text prints these sentences alone.

Examples:
  urnic view events.ndjson               makes events.ndjson.html
  urnic view all.pcapng -o all.html
  urnic view --text events.ndjson)";

}  // namespace

ViewCommand::ViewCommand(const Command& app) {
    view_ =
        app.command("view", "Makes a page for a browser of a trace or a capture, and says what is wrong.");
    view_.footer(kViewFooter);
    view_.option("FILE", file_, "a file of urnic trace, or a capture file").required();
    const auto page =
        view_.option("-o,--output", page_, "where the page goes; \"-\": standard output").type_name("PAGE");
    view_.flag("--text", text_, "print what is wrong, and make no page").excludes(page);
}

void ViewCommand::read_capture(view::EventLog& log, std::istream& stream) const {
    view::LogOutput output(log);
    trace::PacketTrace packets(output, {});
    try {
        const auto reader = decode::open_capture(stream, file_);
        while (const auto record = reader->next()) {
            if (const auto frame = captured_frame(*record)) packets.add(*frame);
        }
    } catch (const decode::CaptureError& error) {
        if (packets.events() == 0) throw LaunchError(error.what());
        fmt::print(stderr, "urnic view: {}; what is before it is shown\n", error.what());
    }
}

void ViewCommand::read(view::EventLog& log) const {
    errno = 0;
    std::ifstream stream(file_, std::ios::binary);
    const int first = stream.peek();
    if (!stream) {
        throw LaunchError(
            stream.eof() ? fmt::format("{} is empty: urnic trace and urnic capture make such files", file_)
                         : fmt::format("{} cannot be read: {}", file_, std::strerror(errno)));
    }
    if (first != '{') {
        read_capture(log, stream);
    } else if (!log.read(stream)) {
        throw LaunchError(
            fmt::format("{} is no trace: its first line has to be the header that urnic trace writes "
                        "(docs/trace-schema.json)",
                        file_));
    }
}

void ViewCommand::run() const {
    view::EventLog log;
    read(log);
    if (const std::string shortfall = log.shortfall(); !shortfall.empty()) {
        fmt::print(stderr, "urnic view: {}: {}\n", file_, shortfall);
    }
    if (text_) {
        view::write_text(std::cout, log);
        return;
    }
    const std::string page = page_.empty() ? file_ + ".html" : page_;
    UniqueFd file;
    std::ofstream made;
    if (page != "-") {
        file = open_private_file(page, Replace::kContents);
        made.open(fmt::format("/proc/self/fd/{}", file.get()), std::ios::binary);
        if (!made) throw LaunchError(fmt::format("{} cannot be written: {}", page, std::strerror(errno)));
    }
    std::ostream& out = page == "-" ? std::cout : made;
    view::write_page(out, log, file_);
    if (!out) throw LaunchError(fmt::format("{} cannot be written: {}", page, std::strerror(errno)));
    const std::size_t ports = log.network().ports().size();
    fmt::print(stderr, "urnic view: {} events of {} QPs{} are in {}\n", log.events(),
               log.connections().size(), ports == 0 ? "" : fmt::format(" and {} ports", ports), page);
}

}  // namespace urnic::cli
