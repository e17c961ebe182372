// What the daemon is doing, as JSON for `urnic status`.
#pragma once

#include "base/json_writer.h"
#include "daemon/control/object_counter.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Writes "daemon": {...}, "devices": [...], "workers": [...], "networks": [...], "faults": [...] and
/// "users": [...], for that user. Who is not privileged gets counters of devices in sum, and nothing that
/// tells of others' objects: `own` counts those that he may see.
void write_status(JsonWriter& json, const ControlState& control, const User& user, const ObjectCounter& own);

}  // namespace urnic::daemon
