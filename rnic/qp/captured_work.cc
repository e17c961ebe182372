#include "rnic/qp/captured_work.h"

namespace urnic {

// An application can have written its next WQE there only when this one has completed.
abi::CapturedWqe captured_send(const Qp& qp, std::uint32_t index) {
    abi::CapturedWqe wqe{};
    wqe.wqe_index = index;
    wqe.first_psn = qp.first_psn_of(index).value();
    SendWork work;
    if (qp.config().sq.fetch(index, work) == Fetch::kOk) {
        wqe.opcode = work.opcode;
        wqe.length_bytes = work.length_bytes;
    } else {
        wqe.is_reused = 1;
    }
    return wqe;
}

abi::CapturedCompletion captured_completion(const Completion& completion) {
    abi::CapturedCompletion shown{};
    shown.wqe_index = completion.wqe_index;
    shown.byte_len = completion.byte_len;
    shown.status = static_cast<std::uint8_t>(completion.status);
    shown.opcode = static_cast<std::uint8_t>(completion.opcode);
    shown.is_recv = completion.is_recv ? 1 : 0;
    shown.is_solicited = completion.solicited ? 1 : 0;
    return shown;
}

}  // namespace urnic
