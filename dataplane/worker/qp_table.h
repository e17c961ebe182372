// QP number to QP, for one device on one worker.
#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/worker/slot_table.h"

namespace urnic::dataplane {

/// Indexed by qp_num / num_workers. QP numbers are 24 bits; any other number finds nothing.
class QpTable {
  public:
    explicit QpTable(std::uint32_t num_workers);

    [[nodiscard]] QpSlot* find(std::uint32_t qp_num) const { return slots_.find(index_of(qp_num)); }
    template <class Function>
    void for_each(Function function) const {
        slots_.for_each(function);
    }
    /// `spare` as in SlotTable::set().
    void set(std::uint32_t qp_num, QpSlot& slot, std::unique_ptr<SlotTable::Page>& spare);
    void clear(std::uint32_t qp_num);

  private:
    [[nodiscard]] std::uint32_t index_of(std::uint32_t qp_num) const {
        return num_workers_ == 1 ? qp_num : qp_num / num_workers_;
    }

    std::uint32_t num_workers_;
    SlotTable slots_;
};

}  // namespace urnic::dataplane
