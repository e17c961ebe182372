// XRC domains of a client, and its handles to target QPs.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/make_qp.h"
#include "daemon/verbs/operations.h"
#include "daemon/verbs/xrc.h"
#include "os/rollback.h"

namespace urnic::daemon {

namespace {

/// A QP may have thousands of handles, among which each is looked for.
constexpr std::size_t kTargetsPerStep = 16;

/// Which file a descriptor that was opened for reading stands for. What the kernel knows already is enough,
/// and all that is asked: the answer of a file system in user space could take for ever. 0 or errno.
int identify(int fd, XrcDomain::File& file) {
    // Who may not read a file can still have a descriptor that names it, and must not come by the domain: the
    // kernel does not take such descriptors either. To write alone is not enough, as for a mapping.
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_PATH) != 0) {
        return EBADF;
    }
    if ((flags & O_ACCMODE) == O_WRONLY) {
        return EACCES;
    }
    struct statx info {};
    if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &info) != 0) {
        return errno;
    }
    file = {std::uint64_t{info.stx_dev_major} << 32U | info.stx_dev_minor, info.stx_ino};
    return 0;
}

/// A descriptor that keeps the file in being and does nothing else: no file system hears of its end. 0 or
/// errno.
int pin_file(int fd, UniqueFd& pin) {
    pin = UniqueFd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_PATH | O_CLOEXEC));
    return pin ? 0 : errno;
}

XrcDomain* find_domain(const RnicState& device, const XrcDomain::File& file) {
    const auto found = std::find_if(device.xrc_domains.begin(), device.xrc_domains.end(),
                                    [&](const auto& domain) { return domain->fd && domain->file == file; });
    return found == device.xrc_domains.end() ? nullptr : found->get();
}

void drop_reference(RnicState& device, XrcDomain& domain) {
    if (--domain.references == 0) {
        URNIC_CHECK(domain.targets.empty());
        std::erase_if(device.xrc_domains, [&](const auto& candidate) { return candidate.get() == &domain; });
    }
}

abi::CreateQpReply describe(std::uint32_t handle, const XrcDomain& domain, const XrcTarget& target) {
    abi::CreateQpReply body{};
    body.handle = handle;
    body.qp_num = target.slot.qp->qp_num();
    body.worker = domain.worker;
    return body;
}

/// From now on the handle keeps the QP, and its client hears of the QP's events.
void attach_target(ClientState& client, XrcTargetObject& handle, XrcdObject& xrcd, XrcTarget& target,
                   std::uint64_t user_handle) {
    handle.xrcd = &xrcd;
    handle.target = &target;
    handle.listener.async = xrcd.context->events();
    handle.listener.user_handle = user_handle;
    ++xrcd.users;
    ++target.handles;
    client.control.workers[xrcd.domain->worker]->call([&] {
        handle.listener.next = target.slot.subscribers;
        target.slot.subscribers = &handle.listener;
    });
}

int open_xrcd(ClientState& client, const abi::OpenXrcdRequest& request, Request& message, Reply& reply) {
    ContextObject* context = client.contexts.find(request.context);
    if (context == nullptr) {
        return ENOENT;
    }
    if ((request.flags & ~(abi::kXrcdCreate | abi::kXrcdExclusive)) != 0) {
        return EINVAL;
    }
    RnicState& device = *context->device;
    XrcDomain::File file;
    XrcDomain* domain = nullptr;
    if (!message.fds.empty()) {
        if (const int error = identify(message.fds[0].get(), file); error != 0) {
            client.user.refuse("the XRC domain of a file that it has not opened for reading");
            return error;
        }
        domain = find_domain(device, file);
        // The errors are the kernel's.
        if (domain == nullptr && (request.flags & abi::kXrcdCreate) == 0) {
            return EAGAIN;
        }
        if (domain != nullptr && (request.flags & abi::kXrcdExclusive) != 0) {
            return EINVAL;
        }
    }
    if (client.xrcds.size() >= client.control.limits.max_xrcds || !client.user.has_room(Resource::kXrcds)) {
        return ENOMEM;
    }
    if (domain == nullptr) {
        UniqueFd pin;
        if (!message.fds.empty()) {
            if (const int error = pin_file(message.fds[0].get(), pin); error != 0) {
                return error;
            }
        }
        auto made = std::make_unique<XrcDomain>();
        domain = made.get();
        domain->file = file;
        domain->fd = std::move(pin);
        domain->worker = client.control.least_loaded_worker();
        device.xrc_domains.push_back(std::move(made));
    }
    ++domain->references;
    Rollback drop([&] { drop_reference(device, *domain); });
    auto xrcd = std::make_unique<XrcdObject>();
    xrcd->context = context;
    xrcd->domain = domain;
    abi::HandleReply body{};
    body.handle = client.xrcds.add(std::move(xrcd));
    drop.keep();
    reply.set(body);
    return 0;
}

int close_xrcd(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    const XrcdObject* xrcd = client.xrcds.find(request.handle);
    if (xrcd == nullptr) {
        return ENOENT;
    }
    if (xrcd->users > 0) {
        return EBUSY;
    }
    drop_reference(*xrcd->context->device, *xrcd->domain);
    client.xrcds.remove(request.handle);
    return 0;
}

int open_qp(ClientState& client, const abi::OpenQpRequest& request, Reply& reply) {
    XrcdObject* xrcd = client.xrcds.find(request.xrcd);
    if (xrcd == nullptr) {
        return ENOENT;
    }
    const auto found = xrcd->domain->targets.find(request.qp_num);
    if (found == xrcd->domain->targets.end()) {
        return EINVAL;
    }
    if (client.qps.size() + client.xrc_targets.size() >= client.control.limits.max_qps ||
        !client.user.has_room(Resource::kQps)) {
        return ENOMEM;
    }
    auto handle = std::make_unique<XrcTargetObject>();
    XrcTargetObject& own = *handle;
    const std::uint32_t number = client.xrc_targets.add(std::move(handle));
    attach_target(client, own, *xrcd, *found->second, request.user_handle);
    reply.set(describe(number, *xrcd->domain, *found->second));
    return 0;
}

constexpr Operation kXrcOperations[] = {
    operation<open_xrcd>(abi::Op::kOpenXrcd),
    operation<open_xrcd>(abi::Op::kOpenXrcdOfFile, 1),
    operation<close_xrcd>(abi::Op::kCloseXrcd),
    operation<open_qp>(abi::Op::kOpenQp),
};

}  // namespace

int create_xrc_target(ClientState& client, const abi::CreateQpRequest& request, Reply& reply) {
    XrcdObject* xrcd = client.xrcds.find(request.xrcd);
    if (xrcd == nullptr) {
        return ENOENT;
    }
    XrcDomain& domain = *xrcd->domain;
    RnicState& device = *xrcd->context->device;
    if (client.qps.size() + client.xrc_targets.size() >= client.control.limits.max_qps ||
        device.num_qps >= device.device->caps.max_qp || !client.user.has_room(Resource::kQps)) {
        return ENOMEM;
    }
    const auto qp_num = device.qp_numbers.allocate(domain.worker);
    if (!qp_num) {
        return ENOMEM;
    }
    Rollback free_number([&] { device.qp_numbers.free(*qp_num); });
    dataplane::Worker& worker = *client.control.workers[domain.worker];
    QpConfig config;
    config.qp_num = *qp_num;
    config.xrc_srqs = &domain.srqs;
    config.keys = &device.device->keys;
    config.pkeys = &device.device->pkeys;
    config.port_mtu_bytes = device.device->mtu_bytes;
    config.counters = &device.device->counters[domain.worker];
    config.nak_failed_invalidation = device.device->nak_failed_invalidation;
    config.sends_mig_req = device.device->sends_mig_req;
    config.acks_each_request = device.device->acks_each_request;
    config.timer_tick_ns = device.device->timer_tick_ns;
    config.reorder_buffers = device.device->use_go_back_n ? nullptr : &worker.reorder_buffers();
    dataplane::use_congestion(*device.device, domain.worker, config);
    auto made = std::make_unique<XrcTarget>();
    XrcTarget& target = *made;
    target.slot.qp = make_qp(QpType::kXrcRecv, config);
    URNIC_CHECK(target.slot.qp != nullptr);
    target.slot.device = device.device;
    dataplane::QpTablePages room;
    auto handle = std::make_unique<XrcTargetObject>();
    XrcTargetObject& own = *handle;
    const std::uint32_t number = client.xrc_targets.add(std::move(handle));
    Rollback remove_handle([&] { client.xrc_targets.remove(number); });
    domain.targets.emplace(*qp_num, std::move(made));
    // Nothing fails from here on.
    remove_handle.keep();
    free_number.keep();
    ++device.num_qps;
    ++client.control.worker_qps[domain.worker];
    worker.call([&] { worker.add_qp(target.slot, room); });
    attach_target(client, own, *xrcd, target, request.user_handle);
    reply.set(describe(number, domain, target));
    return 0;
}

/// The last handle takes the QP with it.
void detach_target(ClientState& client, XrcTargetObject& handle) {
    XrcDomain& domain = *handle.xrcd->domain;
    RnicState& device = *handle.xrcd->context->device;
    dataplane::QpSlot& slot = handle.target->slot;
    dataplane::Worker& worker = *client.control.workers[domain.worker];
    const bool is_last = --handle.target->handles == 0;
    worker.call([&] {
        dataplane::QpEventSubscriber** at = &slot.subscribers;
        while (*at != &handle.listener) {
            at = &(*at)->next;
        }
        *at = handle.listener.next;
        if (is_last) {
            worker.remove_qp(slot);
        }
    });
    --handle.xrcd->users;
    if (is_last) {
        const std::uint32_t qp_num = slot.qp->qp_num();
        device.qp_numbers.free(qp_num);
        device.device->neighbours->release(slot.neighbour);
        domain.targets.erase(qp_num);
        --client.control.worker_qps[domain.worker];
        --device.num_qps;
    }
}

bool remove_xrc_targets(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.xrc_targets,
        [&](const XrcTargetObject& target) { return context == nullptr || target.xrcd->context == context; },
        kTargetsPerStep);
    return remove_batch(client.xrc_targets, batch,
                        [&](XrcTargetObject& target) { detach_target(client, target); });
}

bool remove_xrcds(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.xrcds, [&](const XrcdObject& xrcd) { return context == nullptr || xrcd.context == context; });
    return remove_batch(client.xrcds, batch,
                        [](const XrcdObject& xrcd) { drop_reference(*xrcd.context->device, *xrcd.domain); });
}

Operations xrc_operations() { return kXrcOperations; }

}  // namespace urnic::daemon
