// urnic-decode, which `urnic decode` runs: prints capture files.
#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>

#include "cli/decode/capture_reader.h"
#include "cli/decode/hex_reader.h"
#include "cli/decode/print.h"
#include "os/command_line.h"

namespace {

namespace capture = urnic::decode;

constexpr int kExitBadFile = 1;
constexpr int kExitUsage = 125;

constexpr const char* kFooter =
    R"(FILE is a pcap file (microseconds or nanoseconds, either byte order), a pcapng file or an ERF file of Ethernet,
InfiniBand or ERF packets. "-" is standard input. With --hex or --hex-infiniband it is text: hexadecimal digits as they are, or as
hexdump, od, xxd, tcpdump -xx and Wireshark print them, with an empty line between packets.

Decoded: RoCEv2 over IPv4 and IPv6, RoCEv1, native InfiniBand, every transport header, CNP, MADs, directed route SMPs,
all messages of the connection manager, IPoIB, RPC-over-RDMA versions 1 and 2, priority flow control.

Each line: number, seconds since the first packet, addresses, what the packet is, the verdicts on its ICRC and VCRC:
  good, BAD, or "not captured" when the capture cut the packet off before it.
"[64 of 1082 bytes captured]": the snap length of the capture cut the packet.

Examples:
  urnic decode trace.pcap
  urnic decode -v --count 3 trace.pcapng
  echo 6000... | urnic decode --hex-infiniband -v -
  tcpdump -i eth0 -w - udp port 4791 | urnic decode -
  urnic decode --json trace.pcap | jq 'select(.layers[].name == "CM REQ")'

Exit status: 0, 1 when a file is no capture or is damaged, 125 for a wrong command line.)";

struct Options {
    std::vector<std::string> files;
    bool full = false;
    bool json = false;
    bool hex = false;             // of Ethernet frames
    bool hex_infiniband = false;  // of packets from their LRH on
    std::uint64_t count = std::numeric_limits<std::uint64_t>::max();
    std::uint16_t rpcrdma_port = urnic::rpcrdma::kNfsRdmaPort;
};

void write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
        throw std::runtime_error(fmt::format("cannot write: {}", std::strerror(errno)));
    }
}

void decode(std::istream& stream, const std::string& name, const Options& options) {
    const capture::Style style = options.json   ? capture::Style::kJson
                                 : options.full ? capture::Style::kFull
                                                : capture::Style::kLines;
    const std::unique_ptr<capture::CaptureReader> reader =
        options.hex              ? capture::read_hex(stream, name, urnic::wire::LinkLayer::kEthernet)
        : options.hex_infiniband ? capture::read_hex(stream, name, urnic::wire::LinkLayer::kInfiniBand)
                                 : capture::open_capture(stream, name);
    capture::RpcrdmaDecoder rpcrdma(options.rpcrdma_port);
    std::uint64_t first_time_ns = 0;
    for (std::uint64_t number = 1; number <= options.count; ++number) {
        const std::optional<capture::Record> record = reader->next();
        if (!record) {
            break;
        }
        if (number == 1) {
            first_time_ns = record->time_ns;
        }
        write(capture::print_record(*record, number, first_time_ns, style, &rpcrdma));
    }
}

void decode_file(const std::string& file, const Options& options) {
    if (file == "-") {
        decode(std::cin, "standard input", options);
        return;
    }
    errno = 0;
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
        throw capture::CaptureError(fmt::format("{}: cannot be opened: {}", file, std::strerror(errno)));
    }
    decode(stream, file, options);
}

int run(int argc, char** argv) {
    Options options;
    urnic::CommandLine app{"Prints the packets of capture files.", "urnic decode"};
    app.footer(kFooter);
    app.option("FILE", options.files, "capture files").required();
    app.flag("-v,--verbose", options.full, "every field of every header, and the payload");
    app.flag("--json", options.json, "one JSON object a packet");
    const auto hex = app.flag("--hex", options.hex, "FILE is text in hexadecimal: Ethernet frames");
    app.flag("--hex-infiniband", options.hex_infiniband, "the same: InfiniBand packets, from their LRH on")
        .excludes(hex);
    app.option("-c,--count", options.count, "stop after N packets of each file").type_name("N");
    app.option("--rpcrdma-port", options.rpcrdma_port,
               "port of RPC-over-RDMA, in connections whose setup was captured")
        .type_name("N")
        .shows_default();
    if (const auto ended = app.parse(argc, argv)) return *ended == 0 ? 0 : kExitUsage;
    int status = 0;
    for (const std::string& file : options.files) {
        try {
            if (options.files.size() > 1 && !options.json) {
                write(fmt::format("{}:\n", file));
            }
            decode_file(file, options);
        } catch (const capture::CaptureError& error) {
            std::fflush(stdout);
            fmt::print(stderr, "urnic decode: {}\n", error.what());
            status = kExitBadFile;
        }
    }
    if (std::fflush(stdout) != 0) {
        throw std::runtime_error(fmt::format("cannot write: {}", std::strerror(errno)));
    }
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "urnic decode: %s\n", error.what());
        return kExitBadFile;
    }
}
