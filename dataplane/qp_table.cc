#include "dataplane/qp_table.h"

#include "rnic/base/check.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kQpNumbers = 1U << 24U;

}  // namespace

QpTable::QpTable(std::uint32_t num_workers)
    : num_workers_(num_workers), pages_(kQpNumbers / num_workers / kPageSlots + 1) {}

void QpTable::set(std::uint32_t qp_num, QpSlot* slot) {
    URNIC_CHECK(qp_num < kQpNumbers);
    const std::uint32_t index = index_of(qp_num);
    std::unique_ptr<Page>& page = pages_[index / kPageSlots];
    if (!page) {
        page = std::make_unique<Page>();
    }
    (*page)[index % kPageSlots] = slot;
}

}  // namespace urnic::dataplane
