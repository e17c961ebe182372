// Protection domains, thread domains and the parent domains that tie the two together.
#include <errno.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

struct ibv_pd* alloc_pd(struct ibv_context* ibv_context) {
    Context* context = context_of(ibv_context);
    auto* pd = make_object<Pd>();
    if (pd == nullptr) {
        return nullptr;
    }
    abi::ContextRequest request{};
    request.context = context->handle;
    abi::HandleReply reply{};
    const int error = context->session->call(abi::Op::kAllocPd, request, reply);
    if (error != 0) {
        free_object(pd);
        errno = error;
        return nullptr;
    }
    pd->pd.context = ibv_context;
    pd->pd.handle = reply.handle;
    Guard guard(context->objects_mutex);
    link(context->pds, pd);
    return &pd->pd;
}

int dealloc_pd(struct ibv_pd* ibv_pd) {
    Pd* pd = pd_of(ibv_pd);
    if (pd->parents.load() != (pd->imported ? 1 : 0)) {
        return EBUSY;
    }
    if (pd->imported) {
        unref_parent_domain(pd);
        return 0;
    }
    if (pd->parent_of != nullptr) {
        if (pd->td != nullptr) {
            pd->td->users.fetch_sub(1);
        }
        pd->parent_of->parents.fetch_sub(1);
        free_object(pd);
        return 0;
    }
    Context* context = context_of(ibv_pd->context);
    const int error = context->session->call_handle(abi::Op::kDeallocPd, ibv_pd->handle);
    if (context->session->is_refusal(error)) {
        return error;
    }
    {
        Guard guard(context->objects_mutex);
        unlink_from(context->pds, pd);
    }
    free_object(pd);
    return 0;
}

struct ibv_td* alloc_td(struct ibv_context* ibv_context, struct ibv_td_init_attr* attr) {
    if (attr != nullptr && attr->comp_mask != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    auto* td = make_object<Td>();
    if (td == nullptr) {
        return nullptr;
    }
    td->td.context = ibv_context;
    return &td->td;
}

int dealloc_td(struct ibv_td* ibv_td) {
    auto* td = reinterpret_cast<Td*>(ibv_td);
    if (td->users.load() != 0) {
        return EBUSY;
    }
    free_object(td);
    return 0;
}

struct ibv_pd* alloc_parent_domain(struct ibv_context* ibv_context,
                                   struct ibv_parent_domain_init_attr* attr) {
    if (attr == nullptr || attr->pd == nullptr || pd_of(attr->pd)->parent_of != nullptr) {
        errno = EINVAL;
        return nullptr;
    }
    constexpr std::uint32_t kKnown =
        IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
    if ((attr->comp_mask & ~kKnown) != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    const bool has_allocators = (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
    if (has_allocators && (attr->alloc == nullptr || attr->free == nullptr)) {
        errno = EINVAL;
        return nullptr;
    }
    auto* pd = make_object<Pd>();
    if (pd == nullptr) {
        return nullptr;
    }
    pd->pd.context = ibv_context;
    pd->pd.handle = attr->pd->handle;
    pd->parent_of = pd_of(attr->pd);
    pd->parent_of->parents.fetch_add(1);
    if (has_allocators) {
        pd->alloc = attr->alloc;
        pd->free = attr->free;
    }
    if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0) {
        pd->allocator_context = attr->pd_context;
    }
    if (attr->td != nullptr) {
        pd->td = reinterpret_cast<Td*>(attr->td);
        pd->td->users.fetch_add(1);
    }
    return &pd->pd;
}

void ref_parent_domain(Pd* pd) {
    if (pd != nullptr && (pd->parent_of != nullptr || pd->imported)) {
        pd->parents.fetch_add(1);
    }
}

void unref_parent_domain(Pd* pd) {
    if (pd == nullptr || (pd->parent_of == nullptr && !pd->imported)) {
        return;
    }
    if (pd->parents.fetch_sub(1) == 1 && pd->imported) {
        // An error leaves it to the end of the context.
        (void)context_of(pd->pd.context)->session->call_handle(abi::Op::kDeallocPd, pd->pd.handle);
        free_object(pd);
    }
}

}  // namespace urnic::provider
