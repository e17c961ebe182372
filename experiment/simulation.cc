#include "experiment/simulation.h"

#include <algorithm>

#include "experiment/ethernet_network.h"
#include "experiment/subnet_network.h"

namespace urnic::experiment {

namespace {

constexpr double kBitsPerByte = 8;

std::unique_ptr<VirtualNetwork> make_network(const ExperimentConfig& config,
                                             VirtualNetworkListener& listener) {
    if (config.link_layer == LinkLayer::kInfiniband) {
        return std::make_unique<SubnetNetwork>(config, listener);
    }
    return std::make_unique<EthernetNetwork>(config, listener);
}

}  // namespace

Simulation::Simulation(const ExperimentConfig& config)
    : config_(config), network_(make_network(config, *this)) {
    world_.network = network_.get();
    warmed_up_ = config.warm_up_ns == 0;
    add_hosts();
    add_flows();
    add_ports();
}

void Simulation::add_hosts() {
    hosts_.resize(config_.topology.nodes.size());
    flow_of_qp_.resize(hosts_.size());
    for (const HostConfig& host : config_.hosts) {
        VirtualHost::Options options;
        options.node = config_.topology.find(host.name);
        options.name = host.name;
        options.rnic = config_.rnic;
        options.settings = host.settings;
        hosts_[options.node] = std::make_unique<VirtualHost>(world_, options, *this);
    }
}

void Simulation::add_flows() {
    world_.timers.resize(static_cast<std::uint32_t>(3 * config_.flows.size() + 1));
    const auto add_qp = [this](netsim::NodeIndex node, std::size_t flow, std::uint32_t depth) {
        const auto timer = static_cast<std::uint32_t>(timer_owners_.size());
        const VirtualHost::QpIndex index = hosts_[node]->add_qp(timer, depth);
        timer_owners_.emplace_back(hosts_[node].get(), index);
        flow_of_qp_[node].push_back(flow);
        return index;
    };
    for (const FlowConfig& flow : config_.flows) {
        Flow made;
        made.config = &flow;
        const netsim::NodeIndex from = config_.topology.find(flow.from);
        const netsim::NodeIndex to = config_.topology.find(flow.to);
        made.sender = hosts_[from].get();
        made.receiver = hosts_[to].get();
        made.sender_qp = add_qp(from, flows_.size(), flow.depth);
        made.receiver_qp = add_qp(to, flows_.size(), flow.depth);
        const bool is_read = flow.verb == Verb::kRead;
        made.asker = is_read ? made.receiver : made.sender;
        made.asker_qp = is_read ? made.receiver_qp : made.sender_qp;
        made.sender->connect(made.sender_qp, *made.receiver, made.receiver_qp, flow.udp_source_port, flow.sl);
        made.receiver->connect(made.receiver_qp, *made.sender, made.sender_qp, 0, flow.sl);
        flows_.push_back(made);
        FlowResult result;
        result.udp_source_port = made.sender->udp_source_port(made.sender_qp);
        result.is_steady = flow.start_ns <= config_.warm_up_ns && flow.stop_ns >= config_.duration_ns;
        results_.flows.push_back(result);
    }
    for (std::size_t i = 0; i < flows_.size(); ++i) {
        world_.timers.set(start_timer(i), config_.flows[i].start_ns);
    }
    world_.timers.set(sample_timer(), config_.sample_ns);
}

void Simulation::add_ports() {
    for (const VirtualPort& port : network_->ports()) {
        PortResult result;
        result.name = port.name;
        result.rate = port.rate;
        result.is_host = port.is_host;
        results_.ports.push_back(result);
    }
}

void Simulation::run_until(TimeNs end) {
    end = std::min(end, config_.duration_ns);
    if (network_watch_ != nullptr) {
        run<true>(end);
    } else {
        run<false>(end);
    }
    now_ = end;
    if (end == config_.duration_ns && !finished_) {
        finished_ = true;
        finish();
    }
}

// What happens changes the ports of one node, and what a host does about it, its own port.
template <bool kIsWatched>
void Simulation::run(TimeNs end) {
    for (;;) {
        const TimeNs network = network_->deadline();
        const TimeNs timer = world_.timers.first_time();
        const TimeNs next = std::min(network, timer);
        if (next > end) {
            break;
        }
        netsim::NodeIndex node = netsim::kNoNode;
        if constexpr (kIsWatched) {
            network_watch_->pass(next);
            node = network <= timer ? network_->next_node() : node_of(world_.timers.first());
        }
        if (network <= timer) {
            now_ = network;
            network_->on_timer(now_);
        } else {
            now_ = timer;
            on_timer(world_.timers.first());
        }
        if constexpr (kIsWatched) {
            if (node != netsim::kNoNode) {
                network_watch_->look(now_, node);
            }
        }
    }
}

void Simulation::watch(QpWatcher& watcher, trace::NetworkTrace& network) {
    world_.watcher = &watcher;
    network_watch_ = std::make_unique<NetworkWatch>(config_, *network_, network);
    for (const Flow& flow : flows_) {
        const auto name_of = [](const VirtualHost& host, VirtualHost::QpIndex qp) {
            return trace::qp_name(host.name(), VirtualHost::qp_num(qp));
        };
        const std::string sender = name_of(*flow.sender, flow.sender_qp);
        const std::string receiver = name_of(*flow.receiver, flow.receiver_qp);
        const netsim::NodeIndex from = flow.sender->node();
        const netsim::NodeIndex to = flow.receiver->node();
        network_watch_->add_path(
            {sender, receiver, *flow.config, true, from, to, flow.sender->path(flow.sender_qp)});
        network_watch_->add_path(
            {receiver, sender, *flow.config, false, to, from, flow.receiver->path(flow.receiver_qp)});
    }
}

// The host whose port it may change; kNoNode: none.
netsim::NodeIndex Simulation::node_of(std::uint32_t timer) const {
    if (timer < timer_owners_.size()) {
        return timer_owners_[timer].first->node();
    }
    return timer == sample_timer() ? netsim::kNoNode : flows_[timer - timer_owners_.size()].asker->node();
}

void Simulation::on_timer(std::uint32_t timer) {
    world_.timers.set(timer, kNever);
    ++results_.total.events;
    if (timer < timer_owners_.size()) {
        const auto& [host, qp] = timer_owners_[timer];
        host->on_timer(now_, qp);
    } else if (timer == sample_timer()) {
        take_sample();
        world_.timers.set(timer, now_ + config_.sample_ns);
    } else {
        Flow& flow = flows_[timer - timer_owners_.size()];
        flow.is_active = true;
        post_more(flow);
    }
}

// Keeps as many requests posted as the flow is deep.
void Simulation::post_more(Flow& flow) {
    const FlowConfig& config = *flow.config;
    const FlowResult& result = results_.flows[static_cast<std::size_t>(&flow - flows_.data())];
    const WrOpcode opcode = config.verb == Verb::kRead ? WrOpcode::kRead : WrOpcode::kWrite;
    while (flow.is_active && !result.has_failed && flow.posted - result.messages < config.depth &&
           (config.messages == 0 || flow.posted < config.messages)) {
        if (now_ >= config.stop_ns) {
            flow.is_active = false;
            return;
        }
        ++flow.posted;
        flow.asker->post(now_, flow.asker_qp, opcode, config.message_bytes);
    }
}

void Simulation::completed(TimeNs now, netsim::NodeIndex host, const Completion& completion) {
    const std::size_t index = flow_of_qp_[host][VirtualHost::index_of(completion.qp_num)];
    Flow& flow = flows_[index];
    FlowResult& result = results_.flows[index];
    if (completion.status != WcStatus::kSuccess) {
        result.has_failed = true;
        return;
    }
    ++result.messages;
    if (flow.config->messages != 0 && result.messages == flow.config->messages) {
        result.finished_ns = now;
        result.is_steady = false;
    }
    post_more(flow);
}

void Simulation::deliver(TimeNs now, netsim::NodeIndex host, VirtualPacket& packet) {
    ++results_.total.packets;
    hosts_[host]->receive(now, packet);
}

void Simulation::room(TimeNs now, netsim::NodeIndex host) { hosts_[host]->room(now); }

// WRITEs by the PSN that the receiver expects next, so packet by packet and each once; READs by whole
// messages.
void Simulation::count_bytes(Flow& flow) {
    const FlowConfig& config = *flow.config;
    const FlowResult& result = results_.flows[static_cast<std::size_t>(&flow - flows_.data())];
    if (config.verb == Verb::kRead) {
        flow.bytes = static_cast<double>(result.messages) * config.message_bytes;
        return;
    }
    abi::QpAttr attr{};
    flow.receiver->qp(flow.receiver_qp).query(attr);
    constexpr std::uint32_t kPsnMask = 0xff'ffff;
    const std::uint32_t packets = (attr.rq_psn - flow.last_psn) & kPsnMask;
    flow.last_psn = attr.rq_psn;
    const std::uint32_t mtu = config_.rnic.mtu_bytes;
    const std::uint32_t of_message = std::max(1U, (config.message_bytes + mtu - 1) / mtu);
    flow.bytes += static_cast<double>(packets) * config.message_bytes / of_message;
}

void Simulation::take_totals() {
    TotalResult& total = results_.total;
    total.marks = total.cnps_sent = total.cnps_handled = total.sent_again = total.timeouts = 0;
    for (const auto& host : hosts_) {
        if (host == nullptr) {
            continue;
        }
        const Counters& counters = host->counters;
        total.marks += counters.np_ecn_marked_roce_packets.value();
        total.cnps_sent += counters.np_cnp_sent.value();
        total.cnps_handled += counters.rp_cnp_handled.value();
        total.sent_again += counters.retrans_pkts.value();
        total.timeouts += counters.local_ack_timeout_err.value();
    }
}

void Simulation::read_ports(bool ends_warm_up, TotalSample& totals) {
    for (std::size_t i = 0; i < results_.ports.size(); ++i) {
        const PortReading reading = network_->read(i, now_);
        PortResult& result = results_.ports[i];
        result.queue_bytes.push_back(reading.queue_bytes);
        result.counters = reading.counters;
        totals.pauses += result.counters.pauses_sent;
        if (config_.link_layer == LinkLayer::kInfiniband) {
            result.xmit_wait_ns.push_back(reading.xmit_wait_ns);
        }
        if (ends_warm_up) {
            result.at_warm_up = result.counters;
            result.xmit_wait_at_warm_up_ns = reading.xmit_wait_ns;
        }
    }
}

void Simulation::take_sample() {
    constexpr double kGiga = 1e9;
    const auto span = static_cast<double>(now_ - sampled_at_);
    const bool ends_warm_up = !warmed_up_ && now_ >= config_.warm_up_ns;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
        Flow& flow = flows_[i];
        FlowResult& result = results_.flows[i];
        count_bytes(flow);
        const FlowRate& rate = flow.sender->qp(flow.sender_qp).flow();
        FlowSample sample;
        sample.goodput_gbit = (flow.bytes - flow.at_sample) * kBitsPerByte / span;
        sample.rate_gbit = static_cast<double>(rate.rate()) / kGiga;
        sample.target_gbit = static_cast<double>(rate.control().target()) / kGiga;
        sample.alpha = static_cast<double>(rate.control().alpha().raw()) / Fraction::kOne;
        result.samples.push_back(sample);
        flow.at_sample = flow.bytes;
        result.bytes = static_cast<std::uint64_t>(flow.bytes);
        result.steady_bytes = ends_warm_up ? result.bytes : result.steady_bytes;
    }
    TotalSample totals;
    read_ports(ends_warm_up, totals);
    take_totals();
    totals.marks = results_.total.marks;
    totals.cnps = results_.total.cnps_sent;
    totals.drops = results_.total.drops;
    results_.totals.push_back(totals);
    results_.sampled_at.push_back(now_);
    sampled_at_ = now_;
    if (ends_warm_up) {
        warmed_up_ = true;
        results_.steady_from_ns = now_;
    }
}

void Simulation::finish() {
    if (sampled_at_ != now_) {
        take_sample();
    }
    if (network_watch_ != nullptr) {
        network_watch_->finish(now_);
    }
    for (std::size_t i = 0; i < flows_.size(); ++i) {
        FlowResult& result = results_.flows[i];
        // Until here: what had come when the warm-up ended.
        result.steady_bytes = result.bytes - result.steady_bytes;
        result.cnps = flows_[i].sender->qp(flows_[i].sender_qp).flow().cnps();
    }
    for (const HostConfig& host : config_.hosts) {
        results_.total.host_pauses += network_->pauses_received(config_.topology.find(host.name));
    }
    results_.total.events += network_->events();
}

}  // namespace urnic::experiment
