#include "daemon/verbs/client.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "daemon/cm/client.h"
#include "daemon/verbs/ah.h"
#include "daemon/verbs/cq.h"
#include "daemon/verbs/device.h"
#include "daemon/verbs/dm.h"
#include "daemon/verbs/mr.h"
#include "daemon/verbs/mw.h"
#include "daemon/verbs/operations.h"
#include "daemon/verbs/qp.h"
#include "daemon/verbs/srq.h"
#include "daemon/verbs/xrc.h"
#include "dataplane/worker/client_doorbells.h"

namespace urnic::daemon {

namespace {

/// Returns the row of an operation; nullptr: there is no such operation.
const Operation* find_operation(abi::Op op) {
    for (const auto table : {device_operations(), ah_operations(), cq_operations(), qp_operations(),
                             mcast_operations(), mr_operations(), dm_operations(), mw_operations(),
                             srq_operations(), xrc_operations(), import_operations(), cm_operations()}) {
        const auto row = std::find_if(table.begin(), table.end(),
                                      [op](const Operation& candidate) { return candidate.op == op; });
        if (row != table.end()) {
            return &*row;
        }
    }
    return nullptr;
}

/// The application's name for itself, fit to be printed.
std::string printable(const char (&program)[32]) {
    std::string name(program, std::find(std::begin(program), std::end(program), '\0'));
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
    return name;
}

/// Shares the doorbells with the client and its workers. 0 or errno.
int attach_to_workers(ClientState& client, Reply& reply) {
    const std::uint32_t num_workers = client.control.num_workers();
    if (const int error = create_memfd("urnic-doorbells", abi::doorbell_bytes(num_workers),
                                       Sharing::kWritable, client.doorbells);
        error != 0) {
        return error;
    }
    client.wake_fds.reserve(num_workers);
    for (std::uint32_t w = 0; w < num_workers; ++w) {
        // One for each client: with a shared one a client could swallow the wake-ups of the others.
        client.wake_fds.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!client.wake_fds.back()) {
            return errno;
        }
    }
    auto* doorbells = reinterpret_cast<abi::WorkerDoorbell*>(client.doorbells.mapping.data());
    for (std::uint32_t w = 0; w < num_workers; ++w) {
        dataplane::Worker& worker = *client.control.workers[w];
        client.on_worker.push_back(std::make_unique<dataplane::ClientDoorbells>(
            doorbells + w, client.wake_fds[w].get(), client.user.share(w),
            dataplane::ProgramId{client.pid, client.uid}));
        int error = 0;
        worker.call([&] { error = worker.attach_client(*client.on_worker[w]); });
        if (error != 0) {
            client.on_worker.pop_back();
            return error;
        }
    }
    reply.fds = {client.control.daemon_state_memfd.fd.get(), client.doorbells.fd.get()};
    for (const UniqueFd& fd : client.wake_fds) {
        reply.fds.push_back(fd.get());
    }
    return 0;
}

}  // namespace

ClientState::ClientState(ControlState& the_control, const Peer& peer, std::uint32_t the_id,
                         std::string the_program)
    : control(the_control),
      id(the_id),
      pid(peer.pid),
      uid(peer.uid),
      user(the_control.user(peer.uid)),
      program(std::move(the_program)),
      memory(&the_control.disposer),
      doorbell_slots(the_control.num_workers()) {}

int hello(ControlState& control, const Peer& peer, std::uint32_t id, const Request& request, Reply& reply,
          std::unique_ptr<ClientState>& client) {
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
    auto made = std::make_unique<ClientState>(control, peer, id, printable(hello.program));
    const int error = attach_to_workers(*made, reply);
    if (error == 0) {
        client = std::move(made);
    }
    return error;
}

bool ClientState::has_qp(const RnicState& rnic, std::uint32_t qp_num) const {
    const auto is_it = [&](const dataplane::QpSlot& slot) {
        return slot.device == rnic.device && slot.qp->qp_num() == qp_num;
    };
    return std::any_of(qps.begin(), qps.end(),
                       [&](const auto& entry) { return is_it(entry.second->slot); }) ||
           std::any_of(xrc_targets.begin(), xrc_targets.end(),
                       [&](const auto& entry) { return is_it(entry.second->target->slot); });
}

bool end_some_objects(ClientState& client, const ContextObject* context) {
    constexpr bool (*kEnd[])(ClientState&, const ContextObject*) = {
        send_posted, remove_qps, remove_xrc_targets, remove_srqs, remove_xrcds,           remove_ahs,
        remove_cqs,  remove_mws, remove_mrs,         remove_dms,  remove_pds_and_channels};
    return std::any_of(std::begin(kEnd), std::end(kEnd),
                       [&](const auto& end_some) { return end_some(client, context); });
}

bool ClientState::end_some() {
    if (!is_ending) {
        is_ending = true;
        if (rings) {
            rings->clear_no_more();
        }
        // Nobody imports what is about to end.
        for (const auto& [handle, context] : contexts) {
            forget_context(*this, *context);
        }
        return true;
    }
    // Before its connections tell their peers that they end.
    if (send_posted(*this, nullptr)) {
        return true;
    }
    if (cm && cm->end_some()) {
        return true;
    }
    cm.reset();
    return end_some_objects(*this, nullptr);
}

ClientState::~ClientState() {
    ClientState& client = *this;
    while (end_some()) {
    }
    for (std::uint32_t w = 0; w < client.on_worker.size(); ++w) {
        client.control.workers[w]->call(
            [&] { client.control.workers[w]->detach_client(*client.on_worker[w]); });
    }
    // Nobody sends to it any more.
    for (auto& [handle, context] : client.contexts) {
        client.control.disposer.take(std::move(context));
    }
    remains->memory_file = client.memory.take_file();
    if (client.rings) {
        client.user.bytes(ByteResource::kRings) -= client.rings->extent_bytes();
    }
    remains->rings = std::move(client.rings);
    remains->doorbells = std::move(client.doorbells);
    remains->wake_fds = std::move(client.wake_fds);
    client.control.disposer.take(std::move(remains));
}

int handle_request(ClientState& client, Request& request, Reply& reply) {
    const Operation* const operation = find_operation(request.header().op);
    if (operation == nullptr) {
        return EOPNOTSUPP;
    }
    if (request.length != operation->length || request.fds.size() != operation->num_fds) {
        client.user.refuse("request {} with {} bytes and {} descriptors instead of {} and {}",
                           static_cast<std::uint32_t>(request.header().op), request.length,
                           request.fds.size(), operation->length, operation->num_fds);
        return EINVAL;
    }
    return operation->handler(client, request, reply);
}

int allocate_rings(ClientState& client, std::size_t bytes, RingPiece& piece) {
    if (!client.rings) {
        auto rings = std::make_unique<RingMemory>();
        if (const int error = rings->create(client.control.limits.max_ring_bytes); error != 0) {
            return error;
        }
        client.rings = std::move(rings);
    }
    const std::uint64_t before = client.rings->extent_bytes();
    const int error = client.rings->allocate(bytes, client.user.room(ByteResource::kRings), piece);
    if (error == EDQUOT) {
        (void)client.user.has_room(ByteResource::kRings, ~std::uint64_t{0});  // the refusal's line
        return ENOMEM;
    }
    client.user.bytes(ByteResource::kRings) += client.rings->extent_bytes() - before;
    return error;
}

}  // namespace urnic::daemon
