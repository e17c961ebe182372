// The faults in force. Touched by the control thread alone; workers see plans that never change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rnic/fault/plan.h"
#include "rnic/fault/rule.h"

namespace urnic::dataplane {

struct Host;

class FaultSet {
  public:
    using Rules = std::vector<std::shared_ptr<fault::ActiveRule>>;

    /// Puts `rules` in force behind those that are, all or none, and swaps the workers' plans. Returns what
    /// is wrong, or an empty string: a device that is not there, too many rules.
    [[nodiscard]] std::string add(const Host& host, const std::vector<fault::Rule>& rules);
    /// False: no rule has that number.
    [[nodiscard]] bool remove(const Host& host, std::uint32_t id);
    void clear(const Host& host);
    /// In the order in which they are asked.
    [[nodiscard]] const Rules& rules() const { return rules_; }

  private:
    /// Gives each worker its plans. When this returns nobody uses the old ones.
    void publish(const Host& host) const;

    Rules rules_;
    std::uint32_t next_id_ = 1;
};

}  // namespace urnic::dataplane
