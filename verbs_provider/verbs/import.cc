// Objects of another process, or of another context of this one, by its command fd (ibv_import_device(3)).
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

template <class Reply>
int import_object(struct ibv_context* context, abi::Op op, std::uint32_t into, std::uint32_t handle,
                  Reply& reply, ReplyFds* fds = nullptr) {
    abi::ImportRequest request{};
    request.into = into;
    request.handle = handle;
    return context_of(context)->session->call(op, request, reply, fds);
}

}  // namespace

struct verbs_context* import_context(struct ibv_device*, int cmd_fd) {
    Session* session = Session::acquire();
    if (session == nullptr) {
        return nullptr;
    }
    abi::ImportDeviceRequest request{};
    abi::ImportDeviceReply reply{};
    ReplyFds fds;
    int error = session->call(abi::Op::kImportDevice, request, reply, &fds, cmd_fd);
    struct verbs_context* context = nullptr;
    if (error == 0) {
        reply.name[sizeof reply.name - 1] = '\0';
        // libibverbs cannot tell our devices from each other by a descriptor; the daemon can.
        struct ibv_device* device = find_device(reply.name);
        error = fds.count() != 1 ? EPROTO : device == nullptr ? ENODEV : 0;
        if (error == 0) {
            context = make_context(device, cmd_fd, session, reply.context, reply.caps, fds);
            error = errno;
        }
        if (context == nullptr) {
            (void)session->call_handle(abi::Op::kCloseDevice, reply.context);
        }
    }
    if (context == nullptr) {
        Session::release(session);
        errno = error;
    }
    return context;
}

Context* usable_context(Context& context) {
    if (context.session->state() != SessionState::kForkedChild) {
        return &context;
    }
    Guard guard(context.objects_mutex);
    if (context.of_child != nullptr && context.of_child->session->state() != SessionState::kForkedChild) {
        return context.of_child;
    }
    const int fd = fcntl(context.verbs.context.cmd_fd, F_DUPFD_CLOEXEC, 0);
    struct verbs_context* own = fd < 0 ? nullptr : import_context(context.verbs.context.device, fd);
    context.of_child = own == nullptr ? nullptr : context_of(&own->context);
    return context.of_child;
}

struct ibv_pd* import_pd(struct ibv_context* context, std::uint32_t handle) {
    auto* pd = make_object<Pd>();
    if (pd == nullptr) {
        return nullptr;
    }
    abi::HandleReply reply{};
    const int error = import_object(context, abi::Op::kImportPd, context_of(context)->handle, handle, reply);
    if (error != 0) {
        free_object(pd);
        errno = error;
        return nullptr;
    }
    pd->pd.context = context;
    pd->pd.handle = reply.handle;
    pd->imported = true;
    pd->parents.store(1);  // the application; QPs may outlive its interest
    return &pd->pd;
}

void unimport_pd(struct ibv_pd* pd) { unref_parent_domain(pd_of(pd)); }

struct ibv_mr* import_mr(struct ibv_pd* pd, std::uint32_t handle) {
    auto* mr = make_object<Mr>();
    if (mr == nullptr) {
        return nullptr;
    }
    abi::ImportMrReply reply{};
    const int error = import_object(pd->context, abi::Op::kImportMr, pd->handle, handle, reply);
    abi::RegMrReply described{};
    described.handle = handle;
    described.lkey = reply.lkey;
    described.rkey = reply.rkey;
    return finish_mr(mr, error, pd, described, reply.length, kMrImported);
}

void unimport_mr(struct ibv_mr* mr) { free_object(reinterpret_cast<Mr*>(mr)); }

struct ibv_dm* import_dm(struct ibv_context* ibv_context, std::uint32_t handle) {
    Context* context = context_of(ibv_context);
    abi::DmReply reply{};
    ReplyFds fds;
    const int error = import_object(ibv_context, abi::Op::kImportDm, context->handle, handle, reply, &fds);
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    return make_dm(*context, reply, fds);
}

// The daemon keeps the memory for those who have it still.
void unimport_dm(struct ibv_dm* dm) { (void)free_dm(dm); }

}  // namespace urnic::provider
