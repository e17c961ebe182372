// Numbers of protection domains, which regions, windows and QPs name them by.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>

namespace urnic::daemon {

/// Hands out numbers that no PD of the daemon has, 0 never: a client that makes four thousand million PDs
/// must not come by the number of another's.
class PdNumbers {
  public:
    /// In use until the last copy is destroyed.
    using Number = std::shared_ptr<const std::uint32_t>;

    explicit PdNumbers(std::uint32_t first = 1) : next_(first) {}
    [[nodiscard]] Number allocate() {
        while (next_ == 0 || used_->contains(next_)) {
            ++next_;
        }
        auto number = std::make_unique<const std::uint32_t>(next_);
        used_->insert(next_++);
        return {number.release(), [used = used_](const std::uint32_t* ended) {
                    used->erase(*ended);
                    delete ended;
                }};
    }
    /// Where to look for the next free one.
    void continue_at(std::uint32_t next) { next_ = next; }

  private:
    std::uint32_t next_;
    std::shared_ptr<std::unordered_set<std::uint32_t>> used_ =
        std::make_shared<std::unordered_set<std::uint32_t>>();
};

}  // namespace urnic::daemon
