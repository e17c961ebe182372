// ibv_qp_attr to and from the daemon's form.
#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

/// An enumeration of libibverbs as the number that it is: the application, or the daemon by way of librdmacm,
/// may have put anything there. What is no byte becomes 255, which no enumeration has.
template <class Enumeration>
std::uint8_t number_of(const Enumeration& value) {
    std::uint32_t number = 0;
    static_assert(sizeof number == sizeof value);
    std::memcpy(&number, &value, sizeof number);
    return number <= 0xff ? static_cast<std::uint8_t>(number) : 0xff;
}

}  // namespace

abi::QpAttr to_abi(const struct ibv_qp_attr& attr, int mask) {
    abi::QpAttr out{};
    out.mask = static_cast<std::uint32_t>(mask);
    out.state = static_cast<QpState>(number_of(attr.qp_state));
    out.cur_state = static_cast<QpState>(number_of(attr.cur_qp_state));
    out.path_mtu = number_of(attr.path_mtu);
    out.path_mig_state = number_of(attr.path_mig_state);
    out.qkey = attr.qkey;
    out.rq_psn = attr.rq_psn;
    out.sq_psn = attr.sq_psn;
    out.dest_qp_num = attr.dest_qp_num;
    out.access_flags = attr.qp_access_flags;
    out.pkey_index = attr.pkey_index;
    out.en_sqd_async_notify = attr.en_sqd_async_notify;
    out.max_rd_atomic = attr.max_rd_atomic;
    out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    out.min_rnr_timer = attr.min_rnr_timer;
    out.port_num = attr.port_num;
    out.timeout = attr.timeout;
    out.retry_cnt = attr.retry_cnt;
    out.rnr_retry = attr.rnr_retry;
    out.rate_limit = attr.rate_limit;
    out.av = to_abi(attr.ah_attr);
    return out;
}

void from_abi(const abi::QpAttr& in, struct ibv_qp_attr& attr) {
    attr.qp_state = static_cast<enum ibv_qp_state>(in.state);
    attr.cur_qp_state = static_cast<enum ibv_qp_state>(in.state);
    attr.path_mtu = static_cast<enum ibv_mtu>(in.path_mtu);
    attr.path_mig_state = static_cast<enum ibv_mig_state>(in.path_mig_state);
    attr.qkey = in.qkey;
    attr.rq_psn = in.rq_psn;
    attr.sq_psn = in.sq_psn;
    attr.dest_qp_num = in.dest_qp_num;
    attr.qp_access_flags = in.access_flags;
    attr.pkey_index = in.pkey_index;
    attr.en_sqd_async_notify = in.en_sqd_async_notify;
    attr.sq_draining = in.sq_draining;
    attr.max_rd_atomic = in.max_rd_atomic;
    attr.max_dest_rd_atomic = in.max_dest_rd_atomic;
    attr.min_rnr_timer = in.min_rnr_timer;
    attr.port_num = in.port_num;
    attr.timeout = in.timeout;
    attr.retry_cnt = in.retry_cnt;
    attr.rnr_retry = in.rnr_retry;
    attr.rate_limit = in.rate_limit;
    attr.ah_attr = from_abi(in.av);
}

}  // namespace urnic::provider
