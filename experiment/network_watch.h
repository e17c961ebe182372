// What a trace gets to know of an experiment's network: looks at the ports of a node when something has
// happened there.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiment/config.h"
#include "experiment/virtual_network.h"
#include "netsim/topology/routes.h"
#include "observe/trace/network_trace.h"

namespace urnic::experiment {

class NetworkWatch {
  public:
    /// A QP and where what it sends goes.
    struct PathOfQp {
        std::string qp;  // as events of QPs have it
        std::string peer;
        const FlowConfig& flow;
        bool has_payload;
        netsim::NodeIndex from;
        netsim::NodeIndex to;
        const VirtualPath& path;
    };

    /// Tells the trace of all ports. Everything outlives the watch.
    NetworkWatch(const ExperimentConfig& config, const VirtualNetwork& network, trace::NetworkTrace& trace);

    void add_path(const PathOfQp& path);
    /// Before time goes on to `next`.
    void pass(TimeNs next) { trace_.pass(next); }
    void look(TimeNs now, netsim::NodeIndex node);
    void finish(TimeNs now) { trace_.finish(now); }

  private:
    const ExperimentConfig& config_;
    const VirtualNetwork& network_;
    trace::NetworkTrace& trace_;
    netsim::Routes routes_;
    std::vector<std::size_t> first_;  // by node: the trace's number of its port 0
};

}  // namespace urnic::experiment
