#include "cli/trace_command.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/capture_run.h"
#include "cli/captured_frame.h"
#include "cli/cc_target.h"
#include "cli/launch_error.h"
#include "cli/private_file.h"
#include "observe/trace/packet_trace.h"
#include "observe/trace/ring_records.h"

namespace urnic::cli {

namespace {

constexpr const char* kEventsFooter =
    R"(FILE gets one JSON object a line, as docs/trace-schema.json has them: packets sent, received and dropped, with what
became of them, ACKs, NAKs, RNR NAKs, retransmissions with their cause, CNPs, packets in flight, states of QPs,
how long messages took, WQEs as they are taken up, completions, changes of the rate, expired timers and pauses.
With --perfetto it is for https://ui.perfetto.dev instead. "-" is standard output.
--from reads a capture file: one of urnic capture, of a random walk, or of any other program, in which case
nobody noted what became of the packets.

Examples:
  urnic trace events.ndjson
  urnic trace one.ndjson urnic0/0x11
  urnic trace --from all.pcapng --perfetto all.json)";

constexpr std::uint32_t kHeaderBytes = 128;  // that all headers fit in
constexpr int kTraceIdleMs = 10;
constexpr std::size_t kTraceWriteBytes = std::size_t{1} << 18U;

/// By CapturedRnic::interface.
std::vector<trace::RecordSource> sources_of(const CaptureSession& session) {
    std::vector<trace::RecordSource> sources(session.rnics().size());
    for (const auto& [index, rnic] : session.rnics()) {
        sources[rnic.interface] = {
            rnic.name, rnic.is_infiniband ? wire::LinkLayer::kInfiniBand : wire::LinkLayer::kEthernet};
    }
    return sources;
}

std::vector<trace::Target> targets_of(const std::vector<std::string>& words) {
    std::vector<trace::Target> targets;
    for (const std::string& word : words) {
        const auto [device, qpn] = split_target(word);
        targets.push_back({device, qpn});
    }
    return targets;
}

}  // namespace

TraceCommand::TraceCommand(const Command& app) : socket_(default_socket().string()) {
    trace_ = app.command("trace",
                         "Writes what happens to QPs as events: packets, answers, losses and their causes.");
    trace_.footer(kEventsFooter);
    trace_.option("FILE", file_, "where the events go").required();
    trace_.option("DEVICE[/QPN]", targets_, "RNICs or QPs of them, for example urnic0/0x11; none: all");
    trace_.option("--from", from_, "the packets of this capture file, instead of a daemon's")
        .type_name("CAPTURE");
    trace_.flag("--perfetto", perfetto_, "write a trace for ui.perfetto.dev");
    trace_.option("-c,--count", count_, "end after N packets").type_name("N");
    trace_.option("--buffer", buffer_mb_, "megabytes of memory between the daemon and this reader")
        .type_name("MB")
        .in_range<std::uint32_t>(1, kMaxBufferMb)
        .shows_default();
    trace_.option("--socket", socket_, "control socket of the daemon, or the directory it is in")
        .type_name("PATH")
        .shows_default();
}

CaptureOptions TraceCommand::capture_options() const {
    CaptureOptions options;
    for (const trace::Target& target : targets_of(targets_)) {
        if (std::find(options.devices.begin(), options.devices.end(), target.device) ==
            options.devices.end()) {
            options.devices.push_back(target.device);
        }
    }
    // What others do is then no work of the workers.
    if (const auto targets = targets_of(targets_); targets.size() == 1 && targets.front().qpn != 0) {
        options.filter.filters = abi::kFilterOwnQp;
        options.filter.qpn = targets.front().qpn;
    }
    options.snap_bytes = kHeaderBytes;
    options.buffer_mb = buffer_mb_;
    options.has_completions = true;
    return options;
}

TraceCommand::Traced TraceCommand::trace_live(CaptureSession& session, trace::PacketTrace& events,
                                              std::ostream& out) const {
    const std::vector<trace::RecordSource> sources = sources_of(session);
    std::uint64_t packets = 0;
    bool has_ended = false;
    while (true) {
        const bool is_last = StopSignals::has_come() || has_ended;
        const auto records = session.read(is_last);
        for (const CaptureSession::Record* const record : records) {
            if (count_ != 0 && packets == count_) break;
            const CapturedRnic* const rnic = session.rnic(record->header.rnic);
            if (rnic == nullptr) continue;
            if (!trace::add_record(events, sources[rnic->interface], *record, session.time_ns(*record))) {
                throw LaunchError(
                    "a record of the capture makes no sense: use the urnic of the daemon's release");
            }
            packets += record->header.kind == abi::CaptureKind::kPacket ? 1 : 0;
        }
        if (records.empty()) out.flush();  // who waits for an event sees it
        if (!out) throw LaunchError(fmt::format("{} cannot be written: {}", file_, std::strerror(errno)));
        const bool has_more = session.has_more();
        if ((count_ != 0 && packets == count_) || (is_last && !has_more)) break;
        if (is_last || has_more) continue;
        pollfd daemon{session.connection(), POLLIN, 0};
        // What is left in its rings is read once more.
        has_ended = ::poll(&daemon, 1, records.empty() ? kTraceIdleMs : 1) == 1;
    }
    for (const auto& [index, rnic] : session.rnics()) {
        if (const auto counts = session.counts(index); counts.lost != 0) {
            fmt::print(
                stderr,
                "urnic trace: {} of {} packets, WQEs and completions of {} are missing, because this reader "
                "was too slow "
                "(--buffer)\n",
                counts.lost, counts.seen, rnic.name);
        }
    }
    return {packets, has_ended};
}

TraceCommand::Traced TraceCommand::trace_file(trace::PacketTrace& events) const {
    errno = 0;
    std::ifstream stream(from_, std::ios::binary);
    if (!stream) throw LaunchError(fmt::format("{} cannot be read: {}", from_, std::strerror(errno)));
    std::uint64_t packets = 0;
    try {
        const auto reader = decode::open_capture(stream, from_);
        while (count_ == 0 || packets < count_) {
            const auto record = reader->next();
            if (!record) break;
            if (const auto frame = captured_frame(*record)) events.add(*frame);
            ++packets;
        }
    } catch (const decode::CaptureError& error) {
        fmt::print(stderr, "urnic trace: {}; what is before it is traced\n", error.what());
    }
    return {packets};
}

void TraceCommand::run() const {
    // First who is asked, then the file: a trace that is refused leaves what was there.
    std::optional<StopSignals> signals;
    std::optional<CaptureSession> session;
    if (from_.empty()) {
        signals.emplace();
        session.emplace(control_socket(socket_), capture_options());
    }
    UniqueFd file;
    std::vector<char> buffer(kTraceWriteBytes);
    std::ofstream made;
    made.rdbuf()->pubsetbuf(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    if (file_ != "-") {
        file = open_private_file(file_, Replace::kContents);
        made.open(fmt::format("/proc/self/fd/{}", file.get()), std::ios::binary);
        if (!made) throw LaunchError(fmt::format("{} cannot be written: {}", file_, std::strerror(errno)));
    }
    std::ostream& out = file_ == "-" ? std::cout : made;
    std::unique_ptr<trace::TraceOutput> output;
    if (perfetto_) {
        output = std::make_unique<trace::PerfettoJson>(out);
    } else {
        output = std::make_unique<trace::JsonLines>(out, from_.empty() ? "host" : "network");
    }
    trace::PacketTrace events(*output, targets_of(targets_));
    const Traced traced = session ? trace_live(*session, events, out) : trace_file(events);
    output->finish();
    out.flush();
    if (!out) throw LaunchError(fmt::format("{} cannot be written: {}", file_, std::strerror(errno)));
    fmt::print(stderr, "urnic trace: {} events of {} packets are in {}\n", events.events(), traced.packets,
               file_);
    if (traced.has_daemon_ended) throw LaunchError("urnicd has ended, and the trace with it");
}

}  // namespace urnic::cli
