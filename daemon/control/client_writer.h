// Clients with their QPs, CQs, SRQs and MRs, as JSON for `urnic status`.
#pragma once

#include <cstddef>

#include "base/json_writer.h"
#include "daemon/control/qp_snapshot.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Writes clients as elements of an array: a visitor of an ObjectWalk over the first kNumTables.
class ClientWriter {
  public:
    static constexpr std::size_t kNumTables = 5;

    ClientWriter(JsonWriter& json, const ControlState& control) : json_(json), control_(control) {}

    void enter(const ClientState& client);
    void visit(const ClientState& client, QpObject& qp, std::size_t table);
    void visit(const ClientState& client, const XrcTargetObject& target, std::size_t table);
    void visit(const ClientState& client, const CqObject& cq, std::size_t table);
    void visit(const ClientState& client, const SrqObject& srq, std::size_t table);
    void visit(const ClientState& client, const MrObject& mr, std::size_t table);
    /// Not listed.
    template <typename Object>
    void visit(const ClientState& /*client*/, const Object& /*object*/, std::size_t /*table*/) {}
    void leave_table(std::size_t index);
    void leave(std::size_t index);
    /// Writes the QPs that were visited, with one call for each worker that has any. Before any of them ends.
    void write_qps();

  private:
    JsonWriter& json_;
    const ControlState& control_;
    QpSnapshots qps_;
};

}  // namespace urnic::daemon
