// The faults in force. Touched by the control thread alone; workers see plans that never change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rnic/fault/plan.h"
#include "rnic/fault/rule.h"

namespace urnic::daemon {

struct ControlState;
class User;

class ActiveFaults {
  public:
    using Rules = std::vector<std::shared_ptr<fault::ActiveRule>>;

    /// Puts `rules` in force behind those that are, all or none, and swaps the workers' plans. Returns what
    /// is wrong, or an empty string: a device that is not there, too many rules.
    [[nodiscard]] std::string add(const ControlState& control, const std::vector<fault::Rule>& rules);
    /// Returns whether a rule had that number.
    [[nodiscard]] bool remove(const ControlState& control, std::uint32_t id);
    void clear(const ControlState& control);
    /// In the order in which they are asked.
    [[nodiscard]] const Rules& rules() const { return rules_; }
    /// Those that the user may know of: the ones that name a QP are for the privileged.
    [[nodiscard]] Rules rules_for(const User& user) const;

  private:
    /// Gives each worker its plans. When this returns nobody uses the old ones.
    void publish(const ControlState& control) const;

    Rules rules_;
    std::uint32_t next_id_ = 1;
};

}  // namespace urnic::daemon
