#include "rnic/qp/mw_ops.h"

namespace urnic {

WcStatus execute_mw_op(const QpCommon& common, const SendWork& work) {
    KeyTable& keys = *common.config.keys;
    const bool done = work.opcode == static_cast<std::uint8_t>(WrOpcode::kLocalInvalidate)
                          ? keys.invalidate(work.imm_or_rkey, key_user(common))
                          : keys.bind({.new_key = work.rkey,
                                       .region_key = work.srq_number,
                                       .addr = work.remote_addr,
                                       .length_bytes = work.compare_add,
                                       .access = work.address_handle,
                                       .pd = common.config.pd,
                                       .qp_num = common.config.qp_num});
    return done ? WcStatus::kSuccess : WcStatus::kMwBindErr;
}

}  // namespace urnic
