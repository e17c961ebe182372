// How many objects clients have together, of each RNIC and of each worker.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/json_writer.h"
#include "daemon/control/object_walk.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// A visitor of ObjectWalk.
class ObjectCounter {
  public:
    explicit ObjectCounter(std::uint32_t num_workers) : qps_of_worker_(num_workers) {}

    void enter(const ClientState& /*client*/) {}
    template <typename Object>
    void visit(const ClientState& /*client*/, const Object& object, std::size_t table) {
        ++of_device_[context_of(object).device][table];
    }
    void visit(const ClientState& client, const QpObject& qp, std::size_t table) {
        visit<QpObject>(client, qp, table);
        ++qps_of_worker_[qp.worker];
    }
    void visit(const ClientState& client, const XrcTargetObject& target, std::size_t table) {
        visit<XrcTargetObject>(client, target, table);
        ++qps_of_worker_[target.xrcd->domain->worker];
    }
    void leave_table(std::size_t /*index*/) {}
    void leave(std::size_t /*index*/) {}

    struct Sums {
        std::size_t qps = 0;  // XRC targets among them
        std::size_t cqs = 0;
        std::size_t srqs = 0;
        std::size_t mrs = 0;
        std::size_t pds = 0;
        std::size_t ahs = 0;
        std::size_t mws = 0;
        std::size_t dms = 0;
        std::size_t xrc_domains = 0;
    };
    [[nodiscard]] Sums of(const RnicState& device) const;
    /// Writes how many there are on that device, as members of an object.
    void write(JsonWriter& json, const RnicState& device) const;
    [[nodiscard]] std::size_t qps_of_worker(std::uint32_t worker) const { return qps_of_worker_[worker]; }

  private:
    static const ContextObject& context_of(const CqObject& cq) { return *cq.context; }
    static const ContextObject& context_of(const PdObject& pd) { return *pd.context; }
    static const ContextObject& context_of(const DmObject& dm) { return *dm.context; }
    static const ContextObject& context_of(const XrcdObject& xrcd) { return *xrcd.context; }
    static const ContextObject& context_of(const XrcTargetObject& target) { return *target.xrcd->context; }
    /// MRs, MWs, AHs, SRQs and QPs.
    template <typename Object>
    static const ContextObject& context_of(const Object& in_pd) {
        return *in_pd.pd->context;
    }

    std::map<const RnicState*, std::array<std::size_t, ObjectWalk::kNumTables>> of_device_;
    std::vector<std::size_t> qps_of_worker_;
};

}  // namespace urnic::daemon
