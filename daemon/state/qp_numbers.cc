#include "daemon/state/qp_numbers.h"

#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kQpNumberMask = 0xff'ffff;
constexpr std::uint32_t kBlocks = (kQpNumberMask + 1) / QpNumbers::kBlockNumbers;

/// QP0 and QP1 are the management QPs, 0xffffff means multicast (IBA 9.2.5, 10.5).
bool is_reserved(std::uint32_t qp_num) { return qp_num < 2 || qp_num == kQpNumberMask; }

}  // namespace

QpNumbers::QpNumbers(std::uint32_t num_workers)
    : num_workers_(num_workers), block_(secure_random() % kBlocks) {}

std::optional<std::uint32_t> QpNumbers::allocate_in_block(std::uint32_t worker) {
    const std::uint32_t first = secure_random() % kBlockNumbers;
    for (std::uint32_t tried = 0; tried < kBlockNumbers; ++tried) {
        const std::uint32_t offset = (first + tried) % kBlockNumbers;
        const std::uint32_t candidate = block_ * kBlockNumbers + offset;
        if (candidate % num_workers_ == worker && !handed_out_[offset] && !is_reserved(candidate) &&
            used_.insert(candidate).second) {
            handed_out_.set(offset);
            return candidate;
        }
    }
    return std::nullopt;
}

std::optional<std::uint32_t> QpNumbers::allocate(std::uint32_t worker) {
    // Once more than there are blocks: of the present one some numbers may have become free.
    for (std::uint32_t tried = 0; tried <= kBlocks; ++tried) {
        if (const auto number = allocate_in_block(worker)) {
            return number;
        }
        block_ = (block_ + 1) % kBlocks;
        handed_out_.reset();
    }
    return std::nullopt;
}

bool QpNumbers::reserve(std::uint32_t qp_num) {
    return qp_num <= kQpNumberMask && !is_reserved(qp_num) && used_.insert(qp_num).second;
}

}  // namespace urnic::daemon
