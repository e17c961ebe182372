#include "dataplane/port/kernel/xdp_program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "dataplane/xdp_object.h"  // what clang built of rdma_redirect.bpf.c
#include "os/setup_error.h"

namespace urnic::dataplane {

namespace {

constexpr const char* kProgramName = "urnic_rdma";
/// The kernel takes a program of a process that was killed off a moment after it.
constexpr int kStaleTries = 100;
constexpr auto kStalePause = std::chrono::milliseconds(10);

[[noreturn]] void fail(const std::string& what, int error) {
    throw SetupError(fmt::format(
        "{}: {}{}", what, std::strerror(error),
        error == EPERM || error == EACCES
            ? ". Run urnicd as root, or with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON, or "
              "use port = \"af_packet\""
            : ". Use port = \"af_packet\""));
}

/// The name of the program on the interface; empty: there is none.
std::string program_on(int index) {
    bpf_xdp_query_opts query{};
    query.sz = sizeof query;
    if (bpf_xdp_query(index, 0, &query) != 0 || query.prog_id == 0) {
        return {};
    }
    const UniqueFd program(bpf_prog_get_fd_by_id(query.prog_id));
    bpf_prog_info info{};
    __u32 length = sizeof info;
    if (!program || bpf_obj_get_info_by_fd(program.get(), &info, &length) != 0 || info.name[0] == '\0') {
        return fmt::format("number {}", query.prog_id);
    }
    return info.name;
}

int quiet(libbpf_print_level /*level*/, const char* /*format*/, va_list /*arguments*/) { return 0; }

}  // namespace

void XdpProgram::ObjectDeleter::operator()(bpf_object* object) const { bpf_object__close(object); }

XdpProgram::XdpProgram(bool takes_fragments) {
    (void)libbpf_set_print(quiet);
    object_.reset(bpf_object__open_mem(kXdpObject, sizeof kXdpObject, nullptr));
    if (object_ == nullptr) {
        fail("the XDP program cannot be read", errno);
    }
    if (takes_fragments) {
        (void)bpf_program__set_flags(bpf_object__find_program_by_name(object_.get(), kProgramName),
                                     BPF_F_XDP_HAS_FRAGS);
    }
    if (const int error = bpf_object__load(object_.get()); error != 0) {
        fail("the kernel does not load our XDP program", -error);
    }
}

XdpProgram::~XdpProgram() = default;

UniqueFd XdpProgram::attach(const std::string& interface, int index) const {
    const int program = bpf_program__fd(bpf_object__find_program_by_name(object_.get(), kProgramName));
    std::string other = program_on(index);
    for (int i = 0; i < kStaleTries && other == kProgramName; ++i) {
        std::this_thread::sleep_for(kStalePause);
        other = program_on(index);
    }
    if (!other.empty()) {
        throw SetupError(
            other == kProgramName
                ? fmt::format("another urnicd has the interface {}: end it first", interface)
                : fmt::format(
                      "the interface {} has an XDP program already ({}). Take it off (ip link set dev {} "
                      "xdp off), or use port = \"af_packet\"",
                      interface, other, interface));
    }
    for (const __u32 mode : {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE}) {
        bpf_link_create_opts options{};
        options.sz = sizeof options;
        options.flags = mode;
        const int link = bpf_link_create(program, index, BPF_XDP, &options);
        if (link >= 0) {
            return UniqueFd(link);
        }
    }
    fail(fmt::format("the kernel does not take our XDP program on {}", interface), errno);
}

void XdpProgram::redirect(std::uint32_t queue, int socket) const {
    const int map = bpf_object__find_map_fd_by_name(object_.get(), "sockets");
    if (const int error = bpf_map_update_elem(map, &queue, &socket, BPF_ANY); error != 0) {
        fail("packets cannot be redirected to an AF_XDP socket", -error);
    }
}

std::uint32_t receive_queues(const std::string& interface) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_GCHANNELS;
    ifreq request{};
    std::memcpy(request.ifr_name, interface.data(), std::min(interface.size(), sizeof request.ifr_name - 1));
    request.ifr_data = reinterpret_cast<char*>(&channels);
    if (::ioctl(fd.get(), SIOCETHTOOL, &request) != 0) {
        return 1;
    }
    return std::max(1U, std::max(channels.rx_count, channels.combined_count));
}

}  // namespace urnic::dataplane
