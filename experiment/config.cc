#include "experiment/config.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "congestion/profiles.h"

namespace urnic::experiment {

namespace {

std::string problem_of_times(const ExperimentConfig& config) {
    if (config.duration_ns == 0 || config.sample_ns == 0) {
        return "duration_us and sample_us must be greater than 0";
    }
    if (config.warm_up_ns >= config.duration_ns) {
        return "warm_up_us must be less than duration_us";
    }
    if (config.duration_ns / config.sample_ns > kMaxSamples) {
        return fmt::format("{} samples are too many, allowed are {}: make sample_us greater",
                           config.duration_ns / config.sample_ns, kMaxSamples);
    }
    return {};
}

std::string problem_of_host(const ExperimentConfig& config, const std::string& flow,
                            const std::string& name) {
    const netsim::NodeIndex node = config.topology.find(name);
    if (node == netsim::kNoNode) {
        return fmt::format("flow \"{}\": there is no host \"{}\" in the topology", flow, name);
    }
    return config.topology.nodes[node].is_host
               ? std::string()
               : fmt::format("flow \"{}\": \"{}\" is a switch, not a host", flow, name);
}

std::string problem_of_flow(const ExperimentConfig& config, const FlowConfig& flow) {
    for (const std::string& name : {flow.from, flow.to}) {
        if (std::string problem = problem_of_host(config, flow.name, name); !problem.empty()) {
            return problem;
        }
    }
    if (flow.from == flow.to) {
        return fmt::format("flow \"{}\": from and to are the same host", flow.name);
    }
    if (flow.stop_ns <= flow.start_ns) {
        return fmt::format("flow \"{}\": stop_us must be greater than start_us", flow.name);
    }
    return {};
}

std::string problem_of_flows(const ExperimentConfig& config) {
    if (config.flows.empty() || config.flows.size() > kMaxFlows) {
        return fmt::format("there are {} flows; an experiment has 1 to {}, each a [[flow]]",
                           config.flows.size(), kMaxFlows);
    }
    std::set<std::string> names;
    for (const FlowConfig& flow : config.flows) {
        if (!names.insert(flow.name).second) {
            return fmt::format("two flows are called \"{}\"; give each its own name", flow.name);
        }
        if (std::string problem = problem_of_flow(config, flow); !problem.empty()) {
            return problem;
        }
    }
    return {};
}

std::string problem_of_switches(const netsim::SwitchOptions& options) {
    const netsim::EcnOptions& ecn = options.ecn[0];
    if (ecn.kmax_bytes != 0 && ecn.kmin_bytes > ecn.kmax_bytes) {
        return "[switch] kmin_kb must not be greater than kmax_kb";
    }
    const netsim::PfcOptions& pfc = options.pfc;
    if (pfc.lossless != 0 && pfc.xon_bytes > pfc.xoff_bytes) {
        return "[switch] xon_kb must not be greater than xoff_kb";
    }
    return {};
}

std::string problem_of_rates(const ExperimentConfig& config) {
    for (const HostConfig& host : config.hosts) {
        const congestion::RateParameters& rate = host.settings.rate;
        if (config.link_layer == LinkLayer::kInfiniband && rate.algorithm != congestion::Algorithm::kNone &&
            rate.algorithm != congestion::Algorithm::kFixed) {
            return fmt::format(
                "host \"{}\": algorithm must be \"none\" or \"fixed\" with link_layer = "
                "\"infiniband\", where nothing marks packets",
                host.name);
        }
        if (rate.algorithm == congestion::Algorithm::kDcqcn) {
            if (const std::string_view problem = congestion::problem_of(rate.dcqcn); !problem.empty()) {
                return fmt::format("host \"{}\": {}", host.name, problem);
            }
        }
        if (rate.algorithm == congestion::Algorithm::kFixed &&
            (rate.fixed_rate < kMinRate || rate.fixed_rate > rate.line_rate)) {
            return fmt::format("host \"{}\": fixed_gbit must be more than 0 and at most the link's {} Gbit/s",
                               host.name, static_cast<double>(rate.line_rate) / 1e9);
        }
    }
    return {};
}

std::string problem_of_ports(const ExperimentConfig& config) {
    std::vector<std::uint32_t> ports(config.topology.nodes.size());
    for (const netsim::TopologyLink& link : config.topology.links) {
        for (const netsim::NodeIndex node : {link.a, link.b}) {
            if (++ports[node] > netsim::kMaxIbPorts) {
                return fmt::format(
                    "[topology] \"{}\" has more than {} links, which a switch with link_layer = "
                    "\"infiniband\" cannot have",
                    config.topology.nodes[node].name, netsim::kMaxIbPorts);
            }
        }
    }
    return {};
}

// What nobody would ever send is a mistake.
std::string problem_of_lanes(const ExperimentConfig& config) {
    const netsim::IbNetworkOptions& subnet = config.subnet;
    netsim::VlArbiter arbiter;
    using Priority = netsim::VlArbiter::Priority;
    for (const auto& [priority, table] :
         {std::pair(Priority::kHigh, subnet.vl_high), std::pair(Priority::kLow, subnet.vl_low)}) {
        if (table) {
            arbiter.set_table(priority, *table);
        }
    }
    for (const FlowConfig& flow : config.flows) {
        const std::uint8_t vl = subnet.sl_to_vl
                                    ? (*subnet.sl_to_vl)[flow.sl]
                                    : static_cast<std::uint8_t>(flow.sl % subnet.port.info.operational_vls);
        if (vl == netsim::kManagementVl) {
            return fmt::format("flow \"{}\": 'sl_to_vl' of [subnet] drops the packets of its sl {}",
                               flow.name, flow.sl);
        }
        if (!arbiter.is_served(vl)) {
            return fmt::format(
                "flow \"{}\": its VL {} has no weight in 'vl_high' or 'vl_low' of [subnet], so nothing of it "
                "would be sent",
                flow.name, vl);
        }
    }
    return {};
}

std::string problem_of_subnet(const ExperimentConfig& config) {
    if (config.link_layer != LinkLayer::kInfiniband) {
        return {};
    }
    std::string problem = problem_of_ports(config);
    return problem.empty() ? problem_of_lanes(config) : problem;
}

}  // namespace

std::string problem_of(const ExperimentConfig& config) {
    if (std::string problem = netsim::problem_of(config.topology); !problem.empty()) {
        return "[topology] " + problem;
    }
    for (std::string problem :
         {problem_of_times(config), problem_of_switches(config.fabric.switches), problem_of_rates(config),
          problem_of_flows(config), problem_of_subnet(config)}) {
        if (!problem.empty()) {
            return problem;
        }
    }
    return {};
}

}  // namespace urnic::experiment
