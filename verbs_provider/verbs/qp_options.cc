// What a QP may be asked beyond its states and attributes.
#include <errno.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

int modify_qp_rate_limit(struct ibv_qp* ibv_qp, struct ibv_qp_rate_limit_attr* limit) {
    // A burst or a typical packet are hints for a pacer; there is none that could follow them.
    if (limit->comp_mask != 0 || limit->max_burst_sz != 0 || limit->typical_pkt_sz != 0) {
        return EINVAL;
    }
    struct ibv_qp_attr attr {};
    attr.rate_limit = limit->rate_limit;
    return modify_qp(ibv_qp, &attr, IBV_QP_RATE_LIMIT);
}

int query_qp_data_in_order(struct ibv_qp*, enum ibv_wr_opcode, std::uint32_t) {
    // The last bytes of a message come last, but what is written through the kernel (memory that could not be
    // converted) comes in whatever order its copy has: the promise is for all memory or none.
    return 0;
}

}  // namespace urnic::provider
