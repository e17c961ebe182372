#include "daemon/control/capture_request.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "abi/capture.h"
#include "base/address_text.h"
#include "base/json_writer.h"

namespace urnic::daemon {

namespace {

constexpr std::size_t kPageBytes = 4096;

/// Of a file in memory that cannot shrink under us; 0: it is another kind of file.
std::size_t size_of(int fd) {
    constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
    const int seals = ::fcntl(fd, F_GET_SEALS);
    struct stat status {};
    if (seals < 0 || (seals & kNeeded) != kNeeded || ::fstat(fd, &status) != 0 || status.st_size < 0) {
        return 0;
    }
    return static_cast<std::size_t>(status.st_size);
}

/// Empty: `rnics` is set.
std::string choose_rnics(const ControlState& control, std::string_view names, std::uint64_t& rnics) {
    if (names.empty()) {
        for (const auto& entry : control.devices) {
            rnics |= std::uint64_t{1} << entry->device->index;
        }
        return "";
    }
    while (!names.empty()) {
        const std::size_t end = std::min(names.find('\n'), names.size());
        const std::string name(names.substr(0, end));
        const RnicState* const entry = control.find_device(name);
        if (entry == nullptr) {
            std::string all;
            for (const auto& device : control.devices) {
                all += (all.empty() ? "" : ", ") + device->device->name;
            }
            return fmt::format("there is no RNIC \"{}\"; there are {}", name, all);
        }
        rnics |= std::uint64_t{1} << entry->device->index;
        names.remove_prefix(std::min(end + 1, names.size()));
    }
    return "";
}

std::string list_of(const ControlState& control, std::uint64_t rnics) {
    JsonWriter json;
    json.object({}, [&] {
        json.array("rnics", [&] {
            for (const auto& entry : control.devices) {
                const dataplane::Device& device = *entry->device;
                if ((rnics >> device.index & 1U) != 0) {
                    json.object({}, [&] {
                        json.value("index", device.index);
                        json.value("name", device.name);
                        json.value("link_layer", device.is_infiniband() ? "InfiniBand" : "Ethernet");
                        json.value("mac", mac_text(device.mac));
                    });
                }
            }
        });
    });
    return json.take();
}

}  // namespace

int answer_capture_request(ControlState& control, User& user, const Request& request, Reply& reply,
                           std::uint32_t& id) {
    if (request.length != sizeof(abi::CaptureRequest)) {
        return EINVAL;
    }
    if (!user.is_privileged()) {
        user.refuse("to capture packets: that is for root and the daemon's own user");
        return EPERM;
    }
    const auto message = request.as<abi::CaptureRequest>();
    if (request.fds.size() != 1) {
        return EINVAL;
    }
    if (id != 0 || control.captures.is_full(ActiveCaptures::For::kProgram)) {
        return reply.refuse<abi::CaptureReply>(
            EBUSY, id != 0 ? std::string("this connection has a capture")
                           : fmt::format("{} captures are running: end one of them",
                                         dataplane::kMaxProgramCaptures));
    }
    auto capture = std::make_unique<ActiveCaptures::Capture>();
    dataplane::PacketCapture& packets = capture->packets;
    const std::string_view names(message.devices, ::strnlen(message.devices, sizeof message.devices));
    if (const std::string problem = choose_rnics(control, names, packets.rnics); !problem.empty()) {
        return reply.refuse<abi::CaptureReply>(ENODEV, problem);
    }
    const int fd = request.fds.front().get();
    const std::size_t bytes = size_of(fd);
    const std::size_t shared_bytes = bytes - std::min(bytes, abi::kControlCaptureBytes);
    const std::size_t part = shared_bytes / control.num_workers() / kPageBytes * kPageBytes;
    if (bytes > abi::kMaxCaptureBytes || part < abi::kMinCaptureRingBytes) {
        return reply.refuse<abi::CaptureReply>(
            EINVAL, fmt::format("a buffer of {} bytes: it has to have at least {} for each of {} workers and "
                                "{} for the control thread, and at most {}",
                                bytes, abi::kMinCaptureRingBytes, control.num_workers(),
                                abi::kControlCaptureBytes, abi::kMaxCaptureBytes));
    }
    if (const int error = capture->memory.map(fd, 0, bytes); error != 0) {
        return error;
    }
    // The reader has touched its pages: what is missing is their place in our page tables, so that a worker
    // does not wait for it.
    (void)::madvise(capture->memory.data(), bytes, MADV_POPULATE_WRITE);
    std::byte* memory = capture->memory.data();
    for (std::uint32_t w = 0; w < control.num_workers(); ++w, memory += part) {
        packets.rings[w] = dataplane::CaptureRingWriter({memory, part});
    }
    packets.rings[dataplane::kControlRing] =
        dataplane::CaptureRingWriter({memory, abi::kControlCaptureBytes});
    packets.snap_bytes = message.snap_bytes;
    packets.filters = message.filters & ~abi::kCaptureCompletions;
    packets.has_completions = (message.filters & abi::kCaptureCompletions) != 0;
    packets.qpn = message.qpn;
    packets.opcode = static_cast<std::uint8_t>(message.opcode);
    std::copy(std::begin(message.peer), std::end(message.peer), packets.peer.begin());
    UniqueFd list(::memfd_create("urnic-capture", MFD_CLOEXEC));
    const std::string text = list_of(control, packets.rnics);
    if (!list || ::pwrite(list.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        return errno;
    }
    abi::CaptureReply answer{};
    answer.rings = control.num_workers();
    answer.control_bytes = abi::kControlCaptureBytes;
    answer.ring_bytes = part;
    reply.set(answer);
    reply.give(std::move(list));
    id = control.captures.add(control, std::move(capture));
    return 0;
}

}  // namespace urnic::daemon
