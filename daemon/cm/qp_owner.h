// Which QPs an application may connect.
#pragma once

#include <cstdint>

namespace urnic::daemon {

struct RnicState;

class QpOwner {
  public:
    virtual ~QpOwner() = default;
    [[nodiscard]] virtual bool has_qp(const RnicState& rnic, std::uint32_t qp_num) const = 0;
};

}  // namespace urnic::daemon
