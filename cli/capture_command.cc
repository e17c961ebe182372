#include "cli/capture_command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include "cli/become.h"
#include "cli/capture_run.h"
#include "cli/launch_error.h"

namespace urnic::cli {

namespace {

constexpr const char* kCaptureFooter =
    R"(Without -w the packets are printed as urnic decode prints them. Each packet has its direction and what became
of it: sent, retransmission, delivered, duplicate, early-kept, early-dropped, no-receive, refused, dropped; and
the QP's state and PSNs behind it. Packets are those of the RNIC itself, on every kind of port: faults that are
injected lie between them and the wire. On InfiniBand its management datagrams are among them (qpn=0, qpn=1). A
reader that is too slow loses packets and is told how many; it never slows an RNIC. Only root and the daemon's own
user may capture. SIGINT ends the capture.

Examples:
  urnic capture urnic0
  urnic capture -w all.pcapng --snaplen 128
  urnic capture -w ring.pcapng --ring 10,100             ring_00001.pcapng ..., the last ten of 100 MB each
  urnic capture --filter qpn=0x11,opcode="RC SEND Only" -c 100 -w - | tshark -r -
  urnic run --standalone -- sh -c 'urnic capture -w two.pcapng & ib_write_bw ...')";

CaptureFile::Ring ring_in(const std::string& text) {
    constexpr std::uint64_t kBytesPerMb = 1'000'000;
    CaptureFile::Ring ring;
    if (text.empty()) return ring;
    const char* const end = text.data() + text.size();
    std::uint32_t megabytes = 0;
    const auto files = std::from_chars(text.data(), end, ring.files);
    const bool has_comma = files.ec == std::errc{} && files.ptr != end && *files.ptr == ',';
    const auto size = std::from_chars(has_comma ? files.ptr + 1 : end, end, megabytes);
    if (!has_comma || size.ec != std::errc{} || size.ptr != end || ring.files == 0 || megabytes == 0) {
        throw LaunchError(fmt::format("--ring {}: it has to be FILES,MB, for example 10,100", text));
    }
    ring.bytes = megabytes * kBytesPerMb;
    return ring;
}

/// urnic decode, to print what is written to `to`.
pid_t start_decoder(UniqueFd& to) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        throw LaunchError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    const UniqueFd from(ends[0]);
    to = UniqueFd(ends[1]);
    const pid_t child = fork();
    if (child < 0) throw LaunchError(fmt::format("cannot start urnic decode: {}", std::strerror(errno)));
    if (child == 0) {
        std::signal(SIGINT, SIG_IGN);  // it ends with its input, when all is printed
        dup2(from.get(), STDIN_FILENO);
        std::string input = "-";
        char* const arguments[] = {input.data(), nullptr};
        try {
            become(Part::kDecoder, arguments);
        } catch (const LaunchError& error) {
            fmt::print(stderr, "urnic: {}\n", error.what());
        }
        _exit(kExitCannotExecute);
    }
    return child;
}

}  // namespace

CaptureCommand::CaptureCommand(const Command& app) : socket_(default_socket().string()) {
    capture_ =
        app.command("capture", "Captures the packets of RNICs while they run, with what became of each.");
    capture_.footer(kCaptureFooter);
    capture_.option("DEVICE", options_.devices, "RNICs, for example urnic0; none: all");
    capture_.option("-w,--write", file_, "write a pcapng file; \"-\": to standard output").type_name("FILE");
    capture_.option("--filter", filter_, "only packets with this QP at either end, this peer, this opcode")
        .type_name("qpn=N,peer=ADDRESS,opcode=N|NAME");
    capture_.option("-s,--snaplen", options_.snap_bytes, "at most so many bytes of each packet")
        .type_name("N")
        .in_range<std::uint32_t>(1, kMaxSnap)
        .shows_default();
    capture_.option("--ring", ring_, "with -w: several files, of which the last FILES are kept")
        .type_name("FILES,MB");
    capture_.option("-c,--count", count_, "end after N packets").type_name("N");
    capture_.option("--buffer", buffer_mb_, "megabytes of memory between the daemon and this reader")
        .type_name("MB")
        .in_range<std::uint32_t>(1, kMaxBufferMb)
        .shows_default();
    capture_.option("--socket", socket_, "control socket of the daemon, or the directory it is in")
        .type_name("PATH")
        .shows_default();
}

void CaptureCommand::run() {
    const CaptureFile::Ring ring = ring_in(ring_);
    if (ring.files != 0 && (file_.empty() || file_ == "-")) {
        throw LaunchError("--ring needs -w FILE, whose name the files get with a number");
    }
    if (file_ == "-" && isatty(STDOUT_FILENO) != 0) {
        throw LaunchError("-w - writes pcapng to a terminal: leave it out to see the packets as text");
    }
    options_.filter = parse_capture_filter(filter_);
    options_.buffer_mb = buffer_mb_;
    const StopSignals signals;
    CaptureSession session(control_socket(socket_), options_);
    const std::string head = capture_head(session, options_);
    if (!file_.empty() && file_ != "-") {
        CaptureFile file(file_, ring, head);
        run_capture(session, file, count_);
        return;
    }
    if (file_ == "-") {
        CaptureFile file(UniqueFd(dup(STDOUT_FILENO)), "standard output", head);
        run_capture(session, file, count_);
        return;
    }
    UniqueFd to;
    const pid_t decoder = start_decoder(to);
    {
        CaptureFile file(std::move(to), "the text", head);
        run_capture(session, file, count_);
    }
    while (waitpid(decoder, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace urnic::cli
