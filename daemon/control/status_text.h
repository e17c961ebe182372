// The text of a status, made in steps: with thousands of objects all of it takes longer than others should
// wait.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/time.h"
#include "daemon/control/object_counter.h"
#include "daemon/control/object_walk.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// {"daemon": {...}, "devices": [...], ..., "clients": [...]}, for one user. Each client is as it was when
/// its part was written, and so is each of its objects.
class StatusText {
  public:
    StatusText(const ControlState& control, const User& user, TimeNs begun_at);

    /// A step. `client_from`: of those that the user may see. Returns whether there are more steps. Throws
    /// std::bad_alloc, and once it has, each time.
    bool write_some(const ClientFrom& client_from);
    [[nodiscard]] bool is_whole() const { return part_ == Part::kWhole; }
    [[nodiscard]] TimeNs begun_at() const { return begun_at_; }
    /// Once it is whole.
    [[nodiscard]] const std::vector<std::string>& pieces() const { return pieces_; }

  private:
    enum class Part : std::uint8_t { kCounts, kHead, kClients, kWhole };
    [[nodiscard]] Part write_part(const ClientFrom& client_from);

    const ControlState& control_;
    const User& user_;
    TimeNs begun_at_;
    Part part_;
    bool is_in_step_ = false;  // and stays so when that throws
    ObjectCounter counts_;
    ObjectWalk counted_{ObjectWalk::kNumTables};
    ObjectWalk written_;
    JsonWriter json_;
    std::vector<std::string> pieces_;
};

}  // namespace urnic::daemon
