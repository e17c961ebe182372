// QP number to QP, for one device on one worker.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace urnic::dataplane {

struct QpSlot;

/// Two levels, indexed by qp_num / num_workers, so that a lookup is two loads; a page costs memory only once
/// it has a QP. QP numbers are 24 bits; any other number finds nothing.
class QpTable {
  public:
    explicit QpTable(std::uint32_t num_workers);

    [[nodiscard]] QpSlot* find(std::uint32_t qp_num) const {
        const std::uint32_t index = index_of(qp_num);
        const std::uint32_t page = index / kPageSlots;
        if (page >= pages_.size() || !pages_[page]) {
            return nullptr;
        }
        return (*pages_[page])[index % kPageSlots];
    }
    /// `slot` nullptr: takes it out.
    void set(std::uint32_t qp_num, QpSlot* slot);

  private:
    static constexpr std::uint32_t kPageSlots = 512;
    using Page = std::array<QpSlot*, kPageSlots>;

    [[nodiscard]] std::uint32_t index_of(std::uint32_t qp_num) const {
        return num_workers_ == 1 ? qp_num : qp_num / num_workers_;
    }

    std::uint32_t num_workers_;
    std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace urnic::dataplane
