// Address handles: the daemon works out the way to a destination, and work requests carry the key of what it
// found.
#include <errno.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

abi::AddressVector to_abi(const struct ibv_ah_attr& attr) {
    abi::AddressVector av{};
    std::memcpy(av.dgid, attr.grh.dgid.raw, sizeof av.dgid);
    av.flow_label = attr.grh.flow_label;
    av.sgid_index = attr.grh.sgid_index;
    av.hop_limit = attr.grh.hop_limit;
    av.traffic_class = attr.grh.traffic_class;
    av.sl = attr.sl;
    av.is_global = attr.is_global;
    av.port_num = attr.port_num;
    av.static_rate = attr.static_rate;
    av.src_path_bits = attr.src_path_bits;
    av.dlid = attr.dlid;
    return av;
}

struct ibv_ah_attr from_abi(const abi::AddressVector& av) {
    struct ibv_ah_attr attr {};
    std::memcpy(attr.grh.dgid.raw, av.dgid, sizeof av.dgid);
    attr.grh.flow_label = av.flow_label;
    attr.grh.sgid_index = av.sgid_index;
    attr.grh.hop_limit = av.hop_limit;
    attr.grh.traffic_class = av.traffic_class;
    attr.sl = av.sl;
    attr.is_global = av.is_global;
    attr.port_num = av.port_num;
    attr.static_rate = av.static_rate;
    attr.src_path_bits = av.src_path_bits;
    attr.dlid = av.dlid;
    return attr;
}

struct ibv_ah* create_ah(struct ibv_pd* pd, struct ibv_ah_attr* attr) {
    auto* ah = make_object<Ah>();
    if (ah == nullptr) {
        return nullptr;
    }
    abi::CreateAhRequest request{};
    request.pd = pd->handle;
    request.av = to_abi(*attr);
    abi::CreateAhReply reply{};
    const int error = context_of(pd->context)->session->call(abi::Op::kCreateAh, request, reply);
    if (error != 0) {
        free_object(ah);
        errno = error;
        return nullptr;
    }
    ah->ah.context = pd->context;
    ah->ah.pd = pd;
    ah->ah.handle = reply.handle;
    ah->key = reply.key;
    return &ah->ah;
}

int destroy_ah(struct ibv_ah* ah) {
    Session* session = context_of(ah->context)->session;
    const int error = session->call_handle(abi::Op::kDestroyAh, ah->handle);
    if (session->is_refusal(error)) {
        return error;
    }
    free_object(ah_of(ah));
    return 0;
}

}  // namespace urnic::provider
