// Which modify_qp a QP accepts: transitions with required and optional attributes for each (IBA 11.2.5.2,
// tables 91 and 92), as programs know them from the kernel.
#pragma once

#include "abi/control.h"
#include "abi/verbs_values.h"
#include "rnic/qp/qp_common.h"

namespace urnic {

/// Checks a transition of a QP of `type` in state `from`: the transition is allowed, every required attribute
/// is in attr.mask and no attribute beyond the optional ones, values in range. Returns 0 or EINVAL.
[[nodiscard]] int check_modify(QpType type, QpState from, const abi::QpAttr& attr);

/// The state that `attr` asks for: attr.state when the mask has it, else `from`.
[[nodiscard]] constexpr QpState target_state(QpState from, const abi::QpAttr& attr) {
    return (attr.mask & kQpAttrState) != 0 ? attr.state : from;
}

/// Copies the attributes named in change.mask.
void apply_attributes(const abi::QpAttr& change, abi::QpAttr& attr);

/// Takes what attr.mask names but the state: attributes, P_Key, path MTU, and `path`, made from the address
/// vector. Returns 0, or EINVAL with nothing taken: what check_modify() refuses, or an entry that the P_Key
/// table has not.
[[nodiscard]] int take_attributes(QpCommon& common, QpType type, const abi::QpAttr& attr,
                                  const wire::Path& path);

/// What query_qp answers. `drained`: nothing is outstanding.
void report_attributes(const QpCommon& common, bool drained, const QpPsns& psns, abi::QpAttr& attr);

}  // namespace urnic
