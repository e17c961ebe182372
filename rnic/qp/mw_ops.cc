#include "rnic/qp/mw_ops.h"

namespace urnic {

WcStatus execute_mw_op(const QpCommon& common, const SendWork& work) {
    KeyTable& keys = *common.config.keys;
    const bool done = work.opcode == static_cast<std::uint8_t>(WrOpcode::kLocalInvalidate)
                          ? keys.invalidate(work.imm_or_rkey, key_user(common))
                          : keys.bind({.new_key = work.wr.mw.new_key,
                                       .region_key = work.wr.mw.region_lkey,
                                       .addr = work.wr.mw.addr,
                                       .length_bytes = work.wr.mw.length,
                                       .access = work.wr.mw.access,
                                       .pd = common.config.pd,
                                       .qp_num = common.config.qp_num});
    return done ? WcStatus::kSuccess : WcStatus::kMwBindErr;
}

}  // namespace urnic
