// Numbers to QPs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace urnic::dataplane {

struct QpSlot;

/// Two levels, so that a lookup is two loads; a page costs memory only once a QP needs it. A worker owns it
/// and does not allocate: pages come from the control thread.
class SlotTable {
  public:
    static constexpr std::uint32_t kPageSlots = 512;
    using Page = std::array<QpSlot*, kPageSlots>;

    /// Indexes are below `size`; any other finds nothing.
    explicit SlotTable(std::uint32_t size) : pages_((size + kPageSlots - 1) / kPageSlots) {}

    [[nodiscard]] QpSlot* find(std::uint32_t index) const {
        const std::uint32_t page = index / kPageSlots;
        if (page >= pages_.size() || !pages_[page]) {
            return nullptr;
        }
        return (*pages_[page])[index % kPageSlots];
    }
    /// Takes `spare`, a page of nothing, when it has none for this index.
    void set(std::uint32_t index, QpSlot& slot, std::unique_ptr<Page>& spare) {
        std::unique_ptr<Page>& page = pages_[index / kPageSlots];
        if (!page) {
            page = std::move(spare);
        }
        (*page)[index % kPageSlots] = &slot;
    }
    /// Off the packet path.
    template <class Function>
    void for_each(Function function) const {
        for (const std::unique_ptr<Page>& page : pages_) {
            for (std::uint32_t i = 0; page != nullptr && i < kPageSlots; ++i) {
                if ((*page)[i] != nullptr) {
                    function(*(*page)[i]);
                }
            }
        }
    }
    /// The index was set before.
    void clear(std::uint32_t index) { (*pages_[index / kPageSlots])[index % kPageSlots] = nullptr; }

  private:
    std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace urnic::dataplane
