// QP and SRQ numbers of one device.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <unordered_set>

namespace urnic::daemon {

/// Hands out the QP numbers of one device. A number tells the worker: qp_num % num_workers. Numbers come at
/// random from a block, and blocks follow each other from a random one, so that who knows one number does not
/// know the others, while neighbours share the pages of the workers' tables (SlotTable). They are reused only
/// after all other blocks, so that late packets of a destroyed QP find nobody.
class QpNumbers {
  public:
    static constexpr std::uint32_t kBlockNumbers = 512;

    explicit QpNumbers(std::uint32_t num_workers);
    /// Nullopt when every number of `worker` is in use.
    [[nodiscard]] std::optional<std::uint32_t> allocate(std::uint32_t worker);
    /// Takes a number of the caller's choice out of those to hand out. Returns false when it is in use, or
    /// never handed out.
    [[nodiscard]] bool reserve(std::uint32_t qp_num);
    void free(std::uint32_t qp_num) { used_.erase(qp_num); }
    [[nodiscard]] bool is_used(std::uint32_t qp_num) const { return used_.count(qp_num) != 0; }

  private:
    [[nodiscard]] std::optional<std::uint32_t> allocate_in_block(std::uint32_t worker);

    std::uint32_t num_workers_;
    std::uint32_t block_;                    // that numbers come from now
    std::bitset<kBlockNumbers> handed_out_;  // of that block, since it began
    std::unordered_set<std::uint32_t> used_;
};

}  // namespace urnic::daemon
