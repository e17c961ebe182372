#include "daemon/verbs/client.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "daemon/cm/client.h"
#include "dataplane/worker/client_doorbells.h"

namespace urnic::dataplane {

namespace {

using abi::Op;

/// Calls a handler with the message as the type it takes.
template <typename T, int (Client::*Handler)(const T&, Request&, Reply&)>
int invoke(Client& client, Request& message, Reply& reply) {
    return (client.*Handler)(message.as<T>(), message, reply);
}

struct Operation {
    Op op;
    std::size_t length;
    std::size_t num_fds;
    int (*handler)(Client&, Request&, Reply&);
};

template <typename T, int (Client::*Handler)(const T&, Request&, Reply&)>
constexpr Operation operation(Op op, std::size_t num_fds = 0) {
    return {op, sizeof(T), num_fds, invoke<T, Handler>};
}

constexpr Operation kOperations[] = {
    operation<abi::AttachMemoryRequest, &Client::attach_memory>(Op::kAttachMemory, 1),
    operation<abi::OpenDeviceRequest, &Client::open_device>(Op::kOpenDevice),
    operation<abi::HandleRequest, &Client::close_device>(Op::kCloseDevice),
    operation<abi::QueryPortRequest, &Client::query_port>(Op::kQueryPort),
    operation<abi::ContextRequest, &Client::alloc_pd>(Op::kAllocPd),
    operation<abi::HandleRequest, &Client::dealloc_pd>(Op::kDeallocPd),
    operation<abi::RegMrRequest, &Client::reg_mr>(Op::kRegMr),
    operation<abi::HandleRequest, &Client::dereg_mr>(Op::kDeregMr),
    operation<abi::ContextRequest, &Client::create_channel>(Op::kCreateChannel),
    operation<abi::HandleRequest, &Client::destroy_channel>(Op::kDestroyChannel),
    operation<abi::CreateCqRequest, &Client::create_cq>(Op::kCreateCq),
    operation<abi::ResizeCqRequest, &Client::resize_cq>(Op::kResizeCq),
    operation<abi::HandleRequest, &Client::destroy_cq>(Op::kDestroyCq),
    operation<abi::ModifyCqRequest, &Client::modify_cq>(Op::kModifyCq),
    operation<abi::CreateQpRequest, &Client::create_qp>(Op::kCreateQp),
    operation<abi::ModifyQpRequest, &Client::modify_qp>(Op::kModifyQp),
    operation<abi::HandleRequest, &Client::query_qp>(Op::kQueryQp),
    operation<abi::HandleRequest, &Client::destroy_qp>(Op::kDestroyQp),
    operation<abi::CreateAhRequest, &Client::create_ah>(Op::kCreateAh),
    operation<abi::HandleRequest, &Client::destroy_ah>(Op::kDestroyAh),
    operation<abi::AllocMwRequest, &Client::alloc_mw>(Op::kAllocMw),
    operation<abi::HandleRequest, &Client::dealloc_mw>(Op::kDeallocMw),
    operation<abi::ReregMrRequest, &Client::rereg_mr>(Op::kReregMr),
    operation<abi::HandleRequest, &Client::alloc_null_mr>(Op::kAllocNullMr),
    operation<abi::AllocDmRequest, &Client::alloc_dm>(Op::kAllocDm),
    operation<abi::HandleRequest, &Client::free_dm>(Op::kFreeDm),
    operation<abi::RegDmMrRequest, &Client::reg_dm_mr>(Op::kRegDmMr),
    operation<abi::ImportDeviceRequest, &Client::import_device>(Op::kImportDevice, 1),
    operation<abi::ImportRequest, &Client::import_pd>(Op::kImportPd),
    operation<abi::ImportRequest, &Client::import_mr>(Op::kImportMr),
    operation<abi::ImportRequest, &Client::import_dm>(Op::kImportDm),
    operation<abi::McastRequest, &Client::attach_mcast>(Op::kAttachMcast),
    operation<abi::McastRequest, &Client::detach_mcast>(Op::kDetachMcast),
    operation<abi::CreateSrqRequest, &Client::create_srq>(Op::kCreateSrq),
    operation<abi::ModifySrqRequest, &Client::modify_srq>(Op::kModifySrq),
    operation<abi::HandleRequest, &Client::query_srq>(Op::kQuerySrq),
    operation<abi::HandleRequest, &Client::destroy_srq>(Op::kDestroySrq),
    operation<abi::OpenXrcdRequest, &Client::open_xrcd>(Op::kOpenXrcd),
    operation<abi::OpenXrcdRequest, &Client::open_xrcd>(Op::kOpenXrcdOfFile, 1),
    operation<abi::HandleRequest, &Client::close_xrcd>(Op::kCloseXrcd),
    operation<abi::OpenQpRequest, &Client::open_qp>(Op::kOpenQp),
    operation<abi::OpenCmChannelRequest, &Client::open_cm_channel>(Op::kOpenCmChannel),
    operation<abi::HandleRequest, &Client::close_cm_channel>(Op::kCloseCmChannel),
    operation<abi::CmCommandRequest, &Client::cm_command>(Op::kCmCommand),
};

/// The application's name for itself, fit to be printed.
std::string printable(const char (&program)[32]) {
    std::string name(program, std::find(std::begin(program), std::end(program), '\0'));
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
    return name;
}

}  // namespace

std::optional<std::uint32_t> DoorbellSlots::allocate() {
    if (!free_.empty()) {
        const std::uint32_t slot = free_.back();
        free_.pop_back();
        return slot;
    }
    if (next_ == abi::kDoorbellSlots) {
        return std::nullopt;
    }
    if (free_.capacity() == next_) {
        free_.reserve(std::size_t{2} * next_ + 16);
    }
    return next_++;
}

Client::Client(ControlState& control, const Peer& peer, std::uint32_t id, std::string program)
    : control_(control),
      id_(id),
      pid_(peer.pid),
      uid_(peer.uid),
      program_(std::move(program)),
      memory_(peer.pid, peer.pidfd.get()),
      doorbell_slots_(control.num_workers()) {}

int Client::hello(ControlState& control, const Peer& peer, std::uint32_t id, const Request& request,
                  Reply& reply, std::unique_ptr<Client>& client) {
    if (request.length != sizeof(abi::HelloRequest) || !request.fds.empty()) {
        return EINVAL;
    }
    const auto hello = request.as<abi::HelloRequest>();
    abi::HelloReply body{};
    body.abi_version = abi::kAbiVersion;
    body.num_workers = control.num_workers();
    body.client_id = id;
    body.daemon_pid = ::getpid();
    reply.set(body);
    if (hello.abi_version != abi::kAbiVersion) {
        reply.whole_on_error = true;
        return EPROTO;
    }
    std::unique_ptr<Client> made(new Client(control, peer, id, printable(hello.program)));
    const int error = made->start(reply);
    if (error == 0) {
        client = std::move(made);
    }
    return error;
}

int Client::start(Reply& reply) {
    const std::uint32_t num_workers = control_.num_workers();
    if (const int error =
            create_memfd("urnic-doorbells", abi::doorbell_bytes(num_workers), Sharing::kWritable, doorbells_);
        error != 0) {
        return error;
    }
    wake_fds_.reserve(num_workers);
    for (std::uint32_t w = 0; w < num_workers; ++w) {
        // One for each client: with a shared one a client could swallow the wake-ups of the others.
        wake_fds_.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!wake_fds_.back()) {
            return errno;
        }
    }
    auto* doorbells = reinterpret_cast<abi::WorkerDoorbell*>(doorbells_.mapping.data());
    for (std::uint32_t w = 0; w < num_workers; ++w) {
        Worker& worker = *control_.workers[w];
        on_worker_.push_back(std::make_unique<ClientDoorbells>(doorbells + w, wake_fds_[w].get()));
        int error = 0;
        worker.call([&] { error = worker.attach_client(*on_worker_[w]); });
        if (error != 0) {
            on_worker_.pop_back();
            return error;
        }
    }
    reply.fds = {control_.daemon_state_memfd.fd.get(), doorbells_.fd.get()};
    for (const UniqueFd& fd : wake_fds_) {
        reply.fds.push_back(fd.get());
    }
    return 0;
}

Client::~Client() {
    // Before its connections tell their peers that they end.
    send_posted(nullptr);
    cm_.reset();
    for (const auto& [handle, context] : contexts_) {
        forget_context(*context);
    }
    remove_qps(nullptr);
    remove_xrc_targets(nullptr);
    remove_srqs(nullptr);
    remove_xrcds(nullptr);
    remove_ahs(nullptr);
    remove_cqs(nullptr);
    remove_mws(nullptr);
    remove_mrs(nullptr);
    remove_dms(nullptr);
    remove_pds_and_channels(nullptr);
    for (std::uint32_t w = 0; w < on_worker_.size(); ++w) {
        control_.workers[w]->call([&] { control_.workers[w]->detach_client(*on_worker_[w]); });
    }
}

int Client::handle(Request& request, Reply& reply) {
    const Op op = request.header().op;
    const auto* row = std::find_if(std::begin(kOperations), std::end(kOperations),
                                   [&](const Operation& candidate) { return candidate.op == op; });
    if (row == std::end(kOperations)) {
        return EOPNOTSUPP;
    }
    if (request.length != row->length || request.fds.size() != row->num_fds) {
        return EINVAL;
    }
    return row->handler(*this, request, reply);
}

int Client::allocate_rings(std::size_t bytes, RingPiece& piece) {
    if (!rings_) {
        auto rings = std::make_unique<RingMemory>();
        if (const int error = rings->create(control_.limits.max_ring_bytes); error != 0) {
            return error;
        }
        rings_ = std::move(rings);
    }
    return rings_->allocate(bytes, piece);
}

}  // namespace urnic::dataplane
