#include "daemon/control/status_text.h"

#include <new>

#include "daemon/control/client_writer.h"
#include "daemon/control/long_answer.h"
#include "daemon/control/status.h"

namespace urnic::daemon {

StatusText::StatusText(const ControlState& control, const User& user, TimeNs begun_at)
    : control_(control),
      user_(user),
      begun_at_(begun_at),
      part_(user.is_privileged() ? Part::kHead : Part::kCounts),
      counts_(control.num_workers()),
      written_(ClientWriter::kNumTables) {}

StatusText::Part StatusText::write_part(const ClientFrom& client_from) {
    switch (part_) {
        case Part::kCounts:
            return counted_.go_on(client_from, LongAnswer::kCountedPerStep, counts_) ? Part::kCounts
                                                                                     : Part::kHead;
        case Part::kHead:
            json_.begin_object({});
            write_status(json_, control_, user_, counts_);
            json_.begin_array("clients");
            return Part::kClients;
        case Part::kClients: {
            ClientWriter writer(json_, control_);
            const bool has_more = written_.go_on(client_from, LongAnswer::kObjectsPerStep, writer);
            writer.write_qps();
            if (has_more) {
                return Part::kClients;
            }
            json_.end_array();
            json_.end_object();
            return Part::kWhole;
        }
        case Part::kWhole:
            break;
    }
    return Part::kWhole;
}

bool StatusText::write_some(const ClientFrom& client_from) {
    if (is_in_step_) {
        throw std::bad_alloc();
    }
    is_in_step_ = true;
    part_ = write_part(client_from);
    if (std::string piece = is_whole() ? json_.take() : json_.take_piece(); !piece.empty()) {
        pieces_.push_back(std::move(piece));
    }
    is_in_step_ = false;
    return !is_whole();
}

}  // namespace urnic::daemon
