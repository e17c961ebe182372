// XRC domains.
#include <errno.h>
#include <fcntl.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

struct ibv_xrcd* open_xrcd(struct ibv_context* ibv_context, struct ibv_xrcd_init_attr* attr) {
    constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if (attr->comp_mask != kNeeded) {
        errno = (attr->comp_mask & ~kNeeded) != 0 ? EOPNOTSUPP : EINVAL;
        return nullptr;
    }
    // A descriptor that is not open could not be sent.
    if (attr->fd != -1 && fcntl(attr->fd, F_GETFD) < 0) {
        return nullptr;
    }
    Context* context = context_of(ibv_context);
    auto* xrcd = make_object<Xrcd>();
    if (xrcd == nullptr) {
        return nullptr;
    }
    abi::OpenXrcdRequest request{};
    request.context = context->handle;
    request.flags = ((attr->oflags & O_CREAT) != 0 ? abi::kXrcdCreate : 0U) |
                    ((attr->oflags & O_EXCL) != 0 ? abi::kXrcdExclusive : 0U);
    abi::HandleReply reply{};
    const abi::Op op = attr->fd == -1 ? abi::Op::kOpenXrcd : abi::Op::kOpenXrcdOfFile;
    const int error = context->session->call(op, request, reply, nullptr, attr->fd);
    if (error != 0) {
        free_object(xrcd);
        errno = error;
        return nullptr;
    }
    xrcd->xrcd.context = ibv_context;
    xrcd->handle = reply.handle;
    return &xrcd->xrcd;
}

int close_xrcd(struct ibv_xrcd* ibv_xrcd) {
    Xrcd* xrcd = xrcd_of(ibv_xrcd);
    Session* session = context_of(ibv_xrcd->context)->session;
    const int error = session->call_handle(abi::Op::kCloseXrcd, xrcd->handle);
    if (session->is_refusal(error)) {
        return error;
    }
    free_object(xrcd);
    return 0;
}

}  // namespace urnic::provider
