// Requests of applications to the daemon's objects: every operation with operands in range and out of it,
// handles that are there, were there or never were, descriptors of every kind, two clients at once. The
// workers of inline_worker.cc check what the control side promises them; at the end nothing may be left.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/check.h"
#include "daemon/verbs/client.h"
#include "rnic/qp/rc/rc_qp.h"
#include "rnic/qp/unreliable/uc_qp.h"
#include "rnic/qp/unreliable/ud_qp.h"
#include "tests/fuzz/control_handles.h"
#include "tests/fuzz/input.h"
#include "tests/unit/daemon/inline_worker.h"

namespace urnic::daemon {
namespace {

using abi::Op;
using fuzz::Input;

constexpr std::uint32_t kWorkers = 2;
constexpr std::uint32_t kDevices = 2;
constexpr int kMostRequests = 200;

/// Knows every other address.
struct Neighbours final : NeighbourResolver {
    std::optional<wire::Mac> resolve(const wire::Gid& gid) const override {
        return gid[15] % 2 == 0 ? std::optional<wire::Mac>({2, 0, 0, 0, 0, gid[15]}) : std::nullopt;
    }
};

/// Two devices, two workers, small limits so that they are reached.
struct Daemon {
    ControlState control;
    Neighbours neighbours;
    std::array<dataplane::NoPort, 2> ports;
    std::array<dataplane::Device, kDevices> devices;
    UniqueFd memory_file;

    Daemon();
    void check_nothing_is_left() const;
};

Daemon::Daemon() : memory_file(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    URNIC_CHECK(::ftruncate(memory_file.get(), static_cast<off_t>(abi::kMemoryFileBytes)) == 0);
    URNIC_CHECK(::fcntl(memory_file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    URNIC_CHECK(create_memfd("state", sizeof(abi::DaemonState), Sharing::kReadOnlyForClients,
                             control.daemon_state_memfd) == 0);
    for (std::uint32_t i = 0; i < kDevices; ++i) {
        dataplane::Device& device = devices[i];
        device.name = "urnic" + std::to_string(i);
        device.index = i;
        device.mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)};
        device.gids[1] = {0, 0, 0,    0,    0,   0,  0, 0,
                          0, 0, 0xff, 0xff, 198, 18, 0, static_cast<std::uint8_t>(i + 1)};
        device.caps.max_mr_size = abi::kMemoryFileBytes;
        device.caps.max_qp = 12;
        device.caps.max_qp_wr = abi::kMaxQueueEntries;
        device.caps.max_sge = abi::kMaxSge;
        device.caps.max_inline = abi::kMaxInlineBytes;
        device.caps.max_cq = 12;
        device.caps.max_cqe = abi::kMaxCqEntries - 1;
        device.caps.max_mr = 12;
        device.caps.max_pd = 6;
        device.caps.gid_table_len = dataplane::Device::kGidTableLength;
        device.caps.pkey_table_len = PkeyTable::kEntries;
        device.caps.num_ports = 1;
        device.caps.max_ah = 20;
        device.caps.max_mw = 8;
        device.caps.max_dm_bytes = 1U << 16U;
        device.caps.max_srq = 12;
        device.caps.max_srq_wr = abi::kMaxQueueEntries;
        device.caps.max_srq_sge = abi::kMaxSge;
        device.neighbours = &neighbours;
        device.port = &ports.at(i);
        control.devices.push_back(std::make_unique<RnicState>(device, kWorkers));
    }
    dataplane::WorkerConfig config;
    config.num_workers = kWorkers;
    for (config.index = 0; config.index < kWorkers; ++config.index) {
        control.workers.push_back(std::make_unique<dataplane::Worker>(config));
    }
    control.worker_cpus.assign(kWorkers, -1);
    control.worker_qps.assign(kWorkers, 0);
    control.limits = {.max_qps = 10,
                      .max_cqs = 10,
                      .max_mrs = 10,
                      .max_pds = 5,
                      .max_ahs = 15,
                      .max_mws = 7,
                      .max_dms = 4,
                      .max_mcast_attachments = 12,
                      .max_srqs = 10,
                      .max_xrcds = 4,
                      .max_channels = 4,
                      .max_registered_bytes = 1U << 20U,
                      .max_ring_bytes = 4U << 20U,
                      .max_device_memory_bytes = 1U << 17U};
}

void Daemon::check_nothing_is_left() const {
    URNIC_CHECK(dataplane::worker_record().qps == 0);
    for (const auto& entry : control.devices) {
        URNIC_CHECK(entry->num_qps == 0 && entry->num_cqs == 0 && entry->num_mrs == 0 &&
                    entry->num_pds == 0 && entry->num_ahs == 0 && entry->num_mws == 0 &&
                    entry->num_dms == 0 && entry->num_srqs == 0 && entry->xrc_domains.empty() &&
                    entry->device->keys.size() == 0 && entry->device->handles.size() == 0 &&
                    entry->groups.num_groups() == 0 && entry->groups.num_memberships() == 0);
    }
    URNIC_CHECK(control.contexts.empty());
    for (const std::uint32_t qps : control.worker_qps) {
        URNIC_CHECK(qps == 0);
    }
}

Daemon& daemon() {
    static Daemon instance;
    return instance;
}

/// Any number, small ones more often: most fields count or name something.
std::uint32_t pick_number(Input& input) {
    const std::uint8_t how = input.byte();
    return how < 0xe0   ? how % 0x20U
           : how < 0xf0 ? input.number<std::uint16_t>()
                        : input.number<std::uint32_t>();
}

/// Those of the client whose turn it is.
KnownHandles*& turn() {
    static KnownHandles* handles = nullptr;
    return handles;
}

std::uint32_t pick_handle(Input& input, Op maker) { return turn()->pick(input, maker); }

template <typename T>
void put(Request& message, const T& body) {
    std::memcpy(message.bytes.data(), &body, sizeof body);
    message.length = sizeof body;
}

void make_registration(Input& input, Request& message) {
    abi::RegMrRequest body{};
    body.pd = pick_handle(input, Op::kAllocPd);
    body.access = input.byte();
    body.addr = std::uint64_t{input.number<std::uint32_t>()} << 12U;
    body.length = pick_number(input) << 6U;
    body.iova = input.flag() ? body.addr : input.number<std::uint64_t>();
    body.flags = input.byte() % 4U;
    put(message, body);
}

void make_cq(Input& input, Request& message) {
    abi::CreateCqRequest body{};
    body.context = pick_handle(input, Op::kOpenDevice);
    body.entries = pick_number(input);
    body.channel = pick_handle(input, Op::kCreateChannel);
    body.comp_vector = pick_number(input);
    body.flags = body.comp_vector % 8U;
    put(message, body);
}

void make_qp(Input& input, Request& message) {
    abi::CreateQpRequest body{};
    body.pd = pick_handle(input, Op::kAllocPd);
    body.send_cq = pick_handle(input, Op::kCreateCq);
    body.recv_cq = pick_handle(input, Op::kCreateCq);
    body.srq = input.byte() < 0xf0 ? 0 : pick_handle(input, Op::kCreateSrq);
    constexpr std::array<QpType, 6> kTypes = {QpType::kRc, QpType::kUc,      QpType::kUd,
                                              QpType::kRc, QpType::kXrcSend, QpType::kXrcRecv};
    const std::uint8_t type = input.byte();
    body.type = type < 0xf0 ? static_cast<std::uint8_t>(kTypes[type % kTypes.size()]) : input.byte();
    body.sq_sig_all = input.byte();
    body.create_flags = body.sq_sig_all == 0xff ? input.byte() : body.sq_sig_all & kQpBlockSelfMcastLb;
    body.xrcd =
        static_cast<QpType>(body.type) == QpType::kXrcRecv ? pick_handle(input, Op::kOpenXrcdOfFile) : 0;
    body.max_send_wr = pick_number(input);
    body.max_recv_wr = pick_number(input);
    body.max_send_sge = pick_number(input);
    body.max_recv_sge = pick_number(input);
    body.max_inline = pick_number(input);
    put(message, body);
}

void make_change(Input& input, Request& message) {
    abi::ModifyQpRequest body{};
    body.qp = pick_handle(input, Op::kCreateQp);
    const bool step = input.flag();
    body.attr.state = static_cast<QpState>(input.byte() % 8U);
    // What one of the steps to RTS asks for, or anything.
    constexpr std::array<std::uint32_t, 4> kSteps = {
        kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags,
        kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic |
            kQpAttrMinRnrTimer,
        kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn |
            kQpAttrMaxQpRdAtomic,
        kQpAttrState};
    body.attr.mask = step ? kSteps[input.byte() % kSteps.size()] : input.number<std::uint32_t>();
    body.attr.path_mtu = 3;
    body.attr.port_num = 1;
    body.attr.av.is_global = 1;
    body.attr.av.port_num = 1;
    body.attr.av.sgid_index = input.byte() % 3U;
    body.attr.av.dgid[15] = input.byte();
    const std::size_t offset = offsetof(abi::QpAttr, cur_state) + input.byte();
    const std::span<const std::byte> garbage = input.bytes(input.below(8));
    for (std::size_t i = 0; i < garbage.size() && offset + i < sizeof body.attr; ++i) {
        reinterpret_cast<std::byte*>(&body.attr)[offset + i] = garbage[i];
    }
    put(message, body);
}

void make_handle(Input& input, Request& message) {
    abi::CreateAhRequest body{};
    body.pd = pick_handle(input, Op::kAllocPd);
    body.av.is_global = input.byte() < 0xf0 ? 1 : 0;
    body.av.port_num = input.byte() < 0xf0 ? 1 : input.byte();
    body.av.sgid_index = input.byte() < 0xe0 ? 1 : input.byte();
    body.av.flow_label = pick_number(input);
    body.av.hop_limit = input.byte();
    body.av.dgid[10] = body.av.dgid[11] = input.byte() < 0xf0 ? 0xff : input.byte();
    body.av.dgid[15] = input.byte();
    put(message, body);
}

void make_change_of_region(Input& input, Request& message) {
    abi::ReregMrRequest body{};
    body.mr = pick_number(input);
    body.changes = input.byte() % 9U;
    body.pd = pick_number(input);
    body.access = input.byte();
    body.addr = std::uint64_t{input.number<std::uint32_t>()} << 12U;
    body.length = pick_number(input) << 6U;
    body.iova = body.addr;
    body.memory_flags = input.byte() % 4U;
    put(message, body);
}

/// Requests of memory windows, device memory and imports. Returns whether `op` is one.
bool make_memory_body(Op op, Input& input, Request& message) {
    switch (op) {
        case Op::kAllocMw:
            put(message, abi::AllocMwRequest{{}, pick_number(input), input.byte() % 4U});
            return true;
        case Op::kReregMr:
            make_change_of_region(input, message);
            return true;
        case Op::kAllocDm:
            put(message,
                abi::AllocDmRequest{{}, pick_number(input), 0, input.number<std::uint32_t>() >> 12U});
            return true;
        case Op::kRegDmMr:
            put(message, abi::RegDmMrRequest{{},
                                             pick_number(input),
                                             pick_number(input),
                                             input.byte() | std::uint32_t{kAccessZeroBased},
                                             0,
                                             pick_number(input),
                                             pick_number(input)});
            return true;
        case Op::kImportDevice:
            put(message, abi::ImportDeviceRequest{});
            return true;
        case Op::kImportPd:
        case Op::kImportMr:
        case Op::kImportDm:
            put(message, abi::ImportRequest{{}, pick_number(input), pick_number(input)});
            return true;
        default:
            return false;
    }
}

void make_membership(Input& input, Request& message) {
    abi::McastRequest body{};
    body.qp = pick_number(input);
    const std::uint8_t kind = input.byte();
    body.gid[0] = kind < 0x40 ? 0xff : 0;
    body.gid[10] = body.gid[11] = 0xff;
    body.gid[12] = kind < 0xf0 ? 0xe0 : input.byte();
    body.gid[15] = input.byte() % 8U;
    put(message, body);
}

void make_srq(Input& input, Request& message) {
    abi::CreateSrqRequest body{};
    body.pd = pick_handle(input, Op::kAllocPd);
    body.max_wr = pick_number(input);
    body.max_sge = pick_number(input);
    const bool is_xrc = input.flag();
    body.xrcd = is_xrc ? pick_handle(input, Op::kOpenXrcdOfFile) : 0;
    body.cq = is_xrc ? pick_handle(input, Op::kCreateCq) : 0;
    put(message, body);
}

/// The number of a target QP that there is, or any.
std::uint32_t pick_target(Input& input) {
    const auto& domains = daemon().control.devices[input.flag() ? 1 : 0]->xrc_domains;
    if (domains.empty() || domains[0]->targets.empty()) {
        return pick_number(input);
    }
    return domains[0]->targets.begin()->first;
}

void make_body(Op op, Input& input, Request& message) {
    if (make_memory_body(op, input, message)) {
        return;
    }
    switch (op) {
        case Op::kAttachMemory:
            put(message, abi::AttachMemoryRequest{});
            return;
        case Op::kAttachProcess:
            put(message, abi::AttachProcessRequest{});
            return;
        case Op::kOpenDevice: {
            abi::OpenDeviceRequest body{};
            std::memset(body.name, 'x', input.byte() < 0xf0 ? 0 : sizeof body.name);
            std::memcpy(body.name, "urnic0", 6);
            body.name[5] = static_cast<char>('0' + input.byte() % 3);
            put(message, body);
            return;
        }
        case Op::kQueryPort:
            put(message, abi::QueryPortRequest{{}, pick_handle(input, Op::kOpenDevice), pick_number(input)});
            return;
        case Op::kRegMr:
            make_registration(input, message);
            return;
        case Op::kCreateCq:
            make_cq(input, message);
            return;
        case Op::kResizeCq:
            put(message,
                abi::ResizeCqRequest{{}, pick_handle(input, Op::kCreateCq), pick_number(input), 0, 0});
            return;
        case Op::kModifyCq:
            put(message,
                abi::ModifyCqRequest{{}, pick_handle(input, Op::kCreateCq), input.byte(), input.byte()});
            return;
        case Op::kCreateQp:
            make_qp(input, message);
            return;
        case Op::kModifyQp:
            make_change(input, message);
            return;
        case Op::kCreateAh:
            make_handle(input, message);
            return;
        case Op::kAttachMcast:
        case Op::kDetachMcast:
            make_membership(input, message);
            return;
        case Op::kCreateSrq:
            make_srq(input, message);
            return;
        case Op::kModifySrq: {
            const std::uint32_t srq = pick_handle(input, Op::kCreateSrq);
            const std::uint32_t mask = input.byte() % 5U;
            put(message, abi::ModifySrqRequest{{}, srq, mask, pick_number(input), pick_number(input)});
            return;
        }
        case Op::kOpenXrcd:
        case Op::kOpenXrcdOfFile:
            put(message, abi::OpenXrcdRequest{{}, pick_handle(input, Op::kOpenDevice), input.byte() % 5U});
            return;
        case Op::kOpenQp: {
            const std::uint32_t xrcd = pick_handle(input, Op::kOpenXrcdOfFile);
            put(message, abi::OpenQpRequest{{}, xrcd, pick_target(input), 0});
            return;
        }
        default:
            put(message, abi::HandleRequest{{}, pick_handle(input, maker_of(op)), 0});
    }
}

/// The memory file, or the command fd of a context.
int some_file(Op op, std::uint8_t choice) {
    const auto& contexts = daemon().control.contexts;
    if (op != Op::kImportDevice || contexts.empty()) {
        return daemon().memory_file.get();
    }
    const auto context = std::next(contexts.begin(), choice % static_cast<std::ptrdiff_t>(contexts.size()));
    return context->second.fd;
}

Request make_request(Input& input) {
    const std::uint8_t choice = input.byte();
    constexpr auto kOps = static_cast<std::uint32_t>(Op::kOpenQp) + 1;
    const auto op = choice % 64U == 63
                        ? Op::kAttachProcess
                        : static_cast<Op>(choice % 64U < kOps ? choice % 64U : choice % 16U + 3U);
    Request message;
    make_body(op, input, message);
    auto header = message.header();
    header.magic = abi::kControlMagic;
    header.op = op;
    header.length = static_cast<std::uint32_t>(message.length);
    std::memcpy(message.bytes.data(), &header, sizeof header);
    if ((choice & 0x80U) != 0) {
        message.length += input.byte() % 8U;
    }
    const std::uint8_t fds = input.byte();
    if (op == Op::kAttachProcess) {
        message.fds.emplace_back(::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
        message.fds.emplace_back(fds % 4U == 0 ? ::fcntl(some_file(op, fds), F_DUPFD_CLOEXEC, 0)
                                               : ::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    } else if (op == Op::kAttachMemory || op == Op::kImportDevice || op == Op::kOpenXrcdOfFile ||
               fds >= 0xf8) {
        const int given = fds % 4U == 0 ? daemon().control.daemon_state_memfd.fd.get() : some_file(op, fds);
        message.fds.emplace_back(::fcntl(given, F_DUPFD_CLOEXEC, 0));
    }
    return message;
}

std::unique_ptr<ClientState> connect(Daemon& daemon, std::uint32_t id) {
    Peer peer;
    peer.pid = ::getpid();
    peer.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    Request message;
    abi::HelloRequest body{};
    body.abi_version = abi::kAbiVersion;
    put(message, body);
    Reply reply;
    std::unique_ptr<ClientState> client;
    URNIC_CHECK(hello(daemon.control, peer, id, message, reply, client) == 0 && client != nullptr);
    return client;
}

void run(Input& input) {
    std::array<std::unique_ptr<ClientState>, 2> clients;
    std::array<KnownHandles, 2> handles;
    std::uint32_t next_id = 1;
    for (int done = 0; done < kMostRequests && !input.empty(); ++done) {
        const std::uint8_t who = input.byte();
        std::unique_ptr<ClientState>& client = clients[who & 1U];
        if (client != nullptr && who >= 0xfc) {
            client.reset();
            handles[who & 1U] = {};
            continue;
        }
        if (client == nullptr) {
            client = connect(daemon(), next_id++);
        }
        turn() = &handles[who & 1U];
        Request request = make_request(input);
        Reply reply;
        int error = kUnfinished;
        while (error == kUnfinished) {
            reply = Reply();
            error = handle_request(*client, request, reply);
        }
        URNIC_CHECK(error >= 0 && reply.length >= sizeof(abi::ReplyHeader) &&
                    reply.length <= reply.bytes.size());
        URNIC_CHECK(reply.fds.size() <= abi::kMaxMessageFds);
        if (error == 0) {
            turn()->note(request, reply);
        }
    }
    clients = {};
    daemon().check_nothing_is_left();
}

}  // namespace
}  // namespace urnic::daemon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    urnic::fuzz::Input input(data, size);
    urnic::daemon::run(input);
    return 0;
}
