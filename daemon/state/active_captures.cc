#include "daemon/state/active_captures.h"

#include <algorithm>

#include "base/check.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

bool ActiveCaptures::is_full(For reader) const {
    const auto number = std::count_if(captures_.begin(), captures_.end(),
                                      [reader](const auto& capture) { return capture->reader == reader; });
    const std::size_t most =
        reader == For::kProgram ? dataplane::kMaxProgramCaptures : dataplane::kMaxPageCaptures;
    return static_cast<std::size_t>(number) >= most;
}

std::uint32_t ActiveCaptures::add(const ControlState& control, std::unique_ptr<Capture> capture) {
    URNIC_CHECK(!is_full(capture->reader));
    captures_.reserve(dataplane::kMaxCaptures);
    capture->id = ++last_id_;
    captures_.push_back(std::move(capture));
    publish(control);
    return last_id_;
}

void ActiveCaptures::remove(const ControlState& control, std::uint32_t id) {
    const auto found = std::find_if(captures_.begin(), captures_.end(),
                                    [id](const auto& capture) { return capture->id == id; });
    if (found == captures_.end()) {
        return;
    }
    const std::unique_ptr<Capture> ended = std::move(*found);  // its memory stays until no thread has it
    captures_.erase(found);
    publish(control);
}

void ActiveCaptures::publish(const ControlState& control) {
    dataplane::PacketCaptures all{};
    for (std::size_t i = 0; i < captures_.size(); ++i) {
        all[i] = &captures_[i]->packets;
    }
    for (const auto& worker : control.workers) {
        worker->call([&] { worker->use_captures(all); });
    }
    writer_.use(all);
}

}  // namespace urnic::daemon
