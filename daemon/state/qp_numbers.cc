#include "daemon/state/qp_numbers.h"

#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kQpNumberMask = 0xff'ffff;

/// QP0 and QP1 are the management QPs, 0xffffff means multicast (IBA 9.2.5, 10.5).
bool is_reserved(std::uint32_t qp_num) { return qp_num < 2 || qp_num == kQpNumberMask; }

}  // namespace

QpNumbers::QpNumbers(std::uint32_t num_workers)
    : num_workers_(num_workers), next_(secure_random() & kQpNumberMask) {}

std::optional<std::uint32_t> QpNumbers::allocate(std::uint32_t worker) {
    std::uint32_t candidate = next_;
    for (std::uint32_t tried = 0; tried <= kQpNumberMask; ++tried) {
        candidate = (candidate + 1) & kQpNumberMask;
        if (candidate % num_workers_ == worker && !is_reserved(candidate) && used_.insert(candidate).second) {
            next_ = candidate;
            return candidate;
        }
    }
    return std::nullopt;
}

bool QpNumbers::reserve(std::uint32_t qp_num) {
    return qp_num <= kQpNumberMask && !is_reserved(qp_num) && used_.insert(qp_num).second;
}

}  // namespace urnic::daemon
