#include "dataplane/worker/qp_table.h"

#include "base/check.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kQpNumbers = 1U << 24U;

}  // namespace

QpTable::QpTable(std::uint32_t num_workers)
    : num_workers_(num_workers), slots_(kQpNumbers / num_workers + 1) {}

void QpTable::set(std::uint32_t qp_num, QpSlot& slot, std::unique_ptr<SlotTable::Page>& spare) {
    URNIC_CHECK(qp_num < kQpNumbers);
    slots_.set(index_of(qp_num), slot, spare);
}

void QpTable::clear(std::uint32_t qp_num) {
    URNIC_CHECK(qp_num < kQpNumbers);
    slots_.clear(index_of(qp_num));
}

}  // namespace urnic::dataplane
