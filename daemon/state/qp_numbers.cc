#include "daemon/state/qp_numbers.h"

#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kQpNumberMask = 0xff'ffff;

/// QP0 and QP1 are the management QPs, 0xffffff means multicast (IBA 9.2.5, 10.5).
bool is_reserved(std::uint32_t qp_num) { return qp_num < 2 || qp_num == kQpNumberMask; }

}  // namespace

QpNumbers::QpNumbers(std::uint32_t num_workers) : num_workers_(num_workers) {
    for (std::uint32_t& key : keys_) {
        key = secure_random();
    }
}

/// A Feistel network over two halves of 12 bits: each index has a number of its own, whatever the rounds
/// compute.
std::uint32_t QpNumbers::permuted(std::uint32_t index) const {
    constexpr std::uint32_t kHalfBits = 12;
    constexpr std::uint32_t kHalfMask = (1U << kHalfBits) - 1;
    std::uint32_t left = index >> kHalfBits & kHalfMask;
    std::uint32_t right = index & kHalfMask;
    for (const std::uint32_t key : keys_) {
        // Multiplication by a large odd number spreads the low bits upwards.
        const std::uint32_t mixed = (right ^ key) * 0x9e37'79b1U;
        const std::uint32_t next = left ^ (mixed >> 16U & kHalfMask);
        left = right;
        right = next;
    }
    return left << kHalfBits | right;
}

std::optional<std::uint32_t> QpNumbers::allocate(std::uint32_t worker) {
    for (std::uint32_t tried = 0; tried <= kQpNumberMask; ++tried) {
        const std::uint32_t candidate = permuted(next_++ & kQpNumberMask);
        if (candidate % num_workers_ == worker && !is_reserved(candidate) && used_.insert(candidate).second) {
            return candidate;
        }
    }
    return std::nullopt;
}

bool QpNumbers::reserve(std::uint32_t qp_num) {
    return qp_num <= kQpNumberMask && !is_reserved(qp_num) && used_.insert(qp_num).second;
}

}  // namespace urnic::daemon
