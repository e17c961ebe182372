// What a trace shows of WQEs and completions.
#pragma once

#include "abi/capture.h"
#include "rnic/qp/qp.h"

namespace urnic {

/// Returns whether an index of a queue is ahead of another: indexes turn.
[[nodiscard]] inline bool is_ahead(std::uint32_t index, std::uint32_t of) {
    return static_cast<std::int32_t>(index - of) > 0;
}

/// A WQE that the QP took out of its send queue lately.
[[nodiscard]] abi::CapturedWqe captured_send(const Qp& qp, std::uint32_t index);
[[nodiscard]] abi::CapturedCompletion captured_completion(const Completion& completion);

}  // namespace urnic
