#include "daemon/control/object_counter.h"

namespace urnic::daemon {

void ObjectCounter::write(JsonWriter& json, const RnicState& device) const {
    const auto found = of_device_.find(&device);
    const auto counts = found == of_device_.end() ? decltype(found->second){} : found->second;
    // In the order of ObjectWalk::kTables; XRC targets are QPs.
    const auto& [qps, xrc_targets, cqs, srqs, mrs, pds, ahs, mws, dms, xrc_domains] = counts;
    json.value("qps", qps + xrc_targets);
    json.value("cqs", cqs);
    json.value("mrs", mrs);
    json.value("pds", pds);
    json.value("ahs", ahs);
    json.value("mws", mws);
    json.value("dms", dms);
    json.value("srqs", srqs);
    json.value("xrc_domains", xrc_domains);
}

}  // namespace urnic::daemon
