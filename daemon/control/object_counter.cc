#include "daemon/control/object_counter.h"

namespace urnic::daemon {

ObjectCounter::Sums ObjectCounter::of(const RnicState& device) const {
    const auto found = of_device_.find(&device);
    if (found == of_device_.end()) {
        return {};
    }
    // In the order of ObjectWalk::kTables.
    const auto& [qps, xrc_targets, cqs, srqs, mrs, pds, ahs, mws, dms, xrc_domains] = found->second;
    return {qps + xrc_targets, cqs, srqs, mrs, pds, ahs, mws, dms, xrc_domains};
}

void ObjectCounter::write(JsonWriter& json, const RnicState& device) const {
    const Sums sums = of(device);
    json.value("qps", sums.qps);
    json.value("cqs", sums.cqs);
    json.value("mrs", sums.mrs);
    json.value("pds", sums.pds);
    json.value("ahs", sums.ahs);
    json.value("mws", sums.mws);
    json.value("dms", sums.dms);
    json.value("srqs", sums.srqs);
    json.value("xrc_domains", sums.xrc_domains);
}

}  // namespace urnic::daemon
