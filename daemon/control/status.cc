#include "daemon/control/status.h"
#include "os/monotonic_clock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/address_text.h"
#include "base/json_writer.h"
#include "daemon/cm/service.h"
#include "daemon/control/fault_json.h"
#include "daemon/control/port_counters.h"
#include "rnic/device/counters.h"

namespace urnic::daemon {

namespace {

/// Whom the text is for.
struct Reader {
    const User& user;
    const ObjectCounter& own;

    [[nodiscard]] bool sees_all() const { return user.is_privileged(); }
};

void write_daemon(JsonWriter& json, const ControlState& control, const Reader& reader) {
    json.object("daemon", [&] {
        json.value("version", control.version);
        json.value("abi_version", abi::kAbiVersion);
        json.value("pid", ::getpid());
        json.value("uptime_seconds", (clock_now() - control.started_ns) / kSecondNs);
        if (!reader.sees_all()) {
            json.value("objects_of_uid", reader.user.uid());
        }
    });
}

void write_counters(JsonWriter& json, const dataplane::Device& device, std::uint32_t num_workers) {
    const auto sums = sum_counters(device, num_workers);
    json.object("counters", [&] {
        for_each_counter(device.counters[0],
                         [&](const char* name, std::uint64_t /*value*/) { json.value(name, sums.at(name)); });
    });
}

/// For the privileged: a worker may have the QPs of one program alone.
void write_counters_per_worker(JsonWriter& json, const dataplane::Device& device, std::uint32_t num_workers) {
    json.array("counters_per_worker", [&] {
        for (std::uint32_t w = 0; w < num_workers; ++w) {
            json.object({}, [&] {
                for_each_counter(device.counters[w],
                                 [&](const char* name, std::uint64_t value) { json.value(name, value); });
            });
        }
    });
}

/// The connection manager's records, timewait and kept answers among them, and what it counts.
void write_cm(JsonWriter& json, const cm::Manager& manager, bool sees_all) {
    const cm::Stats& stats = manager.stats();
    json.object("cm", [&] {
        if (sees_all) {
            json.value("records", manager.size());
            json.value("remembered", manager.remembered());
            json.value("half_open", manager.half_open());
            json.value("listeners", manager.listeners());
        }
        json.value("received", stats.received);
        json.value("sent", stats.sent);
        json.value("retries", stats.retries);
        json.value("duplicates", stats.duplicates);
        json.value("malformed", stats.malformed);
        json.value("stray", stats.stray);
        json.value("unanswered", stats.unanswered);
        json.value("dropped_backlog", stats.dropped_backlog);
        json.value("dropped_half_open", stats.dropped_half_open);
        json.value("dropped_full", stats.dropped_full);
        json.value("rejects_sent", stats.rejects_sent);
        json.value("rejects_received", stats.rejects_received);
        json.value("stale", stats.stale);
        json.value("timeouts", stats.timeouts);
    });
}

void write_pfc(JsonWriter& json, const ControlState& control, dataplane::Device& device) {
    std::array<TimeNs, wire::kPriorities> paused_ns{};
    std::uint8_t paused = 0;
    // Read before: a pause that is counted is in the state, too.
    std::array<std::uint64_t, wire::kPriorities> rx_pause{};
    for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
        rx_pause[index] = device.pfc_counters.priorities[index].rx_pause.value();
    }
    control.workers[0]->call([&] {
        const TimeNs now = clock_now();
        device.pfc_receiver.expire(now);
        paused = device.pfc_receiver.paused(now);
        for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
            paused_ns[index] = device.pfc_receiver.paused_ns(now, index);
        }
    });
    json.object("pfc", [&] {
        json.value("rx_malformed", device.pfc_counters.rx_malformed.value());
        json.array("priorities", [&] {
            for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
                const PfcCounters::Priority& counters = device.pfc_counters.priorities[index];
                json.object({}, [&] {
                    json.value("paused", (paused >> index & 1U) != 0);
                    json.value("paused_us", paused_ns[index] / 1000);
                    json.value("rx_pause", rx_pause[index]);
                    json.value("rx_resume", counters.rx_resume.value());
                    json.value("rx_ignored", counters.rx_ignored.value());
                    json.value("watchdog", counters.watchdog.value());
                    json.value("tx_pause", counters.tx_pause.value());
                    json.value("tx_resume", counters.tx_resume.value());
                });
            }
        });
    });
}

void write_all_object_counts(JsonWriter& json, const RnicState& entry) {
    json.value("qps", entry.num_qps);
    json.value("cqs", entry.num_cqs);
    json.value("mrs", entry.num_mrs);
    json.value("pds", entry.num_pds);
    json.value("ahs", entry.num_ahs);
    json.value("mws", entry.num_mws);
    json.value("dms", entry.num_dms);
    json.value("mcast_groups", entry.groups.num_groups());
    json.value("mcast_attachments", entry.groups.num_memberships());
    json.value("srqs", entry.num_srqs);
    json.value("xrc_domains", entry.xrc_domains.size());
}

/// Whether packets between RNICs of one worker are sent without being frames, and if not, why.
const char* offload_text(const ControlState& control, const dataplane::Device& device) {
    switch (device.local_offload) {
        case dataplane::LocalOffload::kOn:
            return std::any_of(control.workers.begin(), control.workers.end(),
                               [](const auto& worker) { return worker->is_observed(); })
                       ? "off while somebody looks at frames"
                       : "on";
        case dataplane::LocalOffload::kNotFabric:
            return "off: not on a fabric";
        case dataplane::LocalOffload::kNetwork:
            return "off: an emulated network";
        case dataplane::LocalOffload::kInfiniband:
            return "off: link layer InfiniBand";
        case dataplane::LocalOffload::kPfc:
            return "off: priority flow control on its fabric";
        case dataplane::LocalOffload::kOff:
            break;
    }
    return "off: 'offload' in the configuration of its fabric";
}

/// Whether packet sockets send several frames at a time, and if not, why; nullptr: it has none.
const char* segmentation_text(const dataplane::Device& device) {
    switch (device.segmentation.load(std::memory_order_relaxed)) {
        case dataplane::SegmentationOffload::kOn:
            return "on";
        case dataplane::SegmentationOffload::kNotVeth:
            return "off: the interface is no veth";
        case dataplane::SegmentationOffload::kRefused:
            return "off: the kernel refused it (Linux 6.2 has it)";
        case dataplane::SegmentationOffload::kOff:
            return "off: 'segmentation_offload' in the configuration";
        case dataplane::SegmentationOffload::kNotPacket:
            break;
    }
    return nullptr;
}

void write_device(JsonWriter& json, const RnicState& entry, const ControlState& control,
                  const Reader& reader) {
    const std::uint32_t num_workers = control.num_workers();
    const dataplane::Device& device = *entry.device;
    json.object({}, [&] {
        json.value("name", device.name);
        json.value("node_guid", guid_text(device.node_guid));
        json.value("mac", mac_text(device.mac));
        if (!device.profile.empty()) {
            json.value("profile", device.profile);
        }
        json.array("gids", [&] {
            for (const wire::Gid& gid : device.gids) {
                if (gid != wire::Gid{}) {
                    json.value({}, full_gid_text(gid));
                }
            }
        });
        if (device.is_infiniband()) {
            json.array("ip_addresses", [&] {
                for (const wire::Gid& ip : device.ipoib_addresses) {
                    if (ip != wire::Gid{}) {
                        json.value({}, full_gid_text(ip));
                    }
                }
            });
        }
        json.object("port", [&] {
            json.value("number", 1);
            json.value("state", device.port_state.is_up() ? "ACTIVE" : "DOWN");
            json.value("link_layer", device.is_infiniband() ? "InfiniBand" : "Ethernet");
            json.value("mtu", device.mtu_bytes);
            json.value("rx_missed", device.port->rx_missed());
            json.value("offload", offload_text(control, device));
            if (const char* const segmentation = segmentation_text(device); segmentation != nullptr) {
                json.value("segmentation_offload", segmentation);
            }
        });
        if (reader.sees_all()) {
            write_all_object_counts(json, entry);
        } else {
            reader.own.write(json, entry);
        }
        if (control.cm != nullptr) {
            write_cm(json, control.cm->manager(entry), reader.sees_all());
        }
        write_pfc(json, control, *entry.device);
        write_counters(json, device, num_workers);
        if (reader.sees_all()) {
            write_counters_per_worker(json, device, num_workers);
        }
    });
}

/// Those who have something, or were refused something.
void write_users(JsonWriter& json, const ControlState& control, const Reader& reader) {
    json.array("users", [&] {
        for (const auto& [uid, user] : control.users) {
            const bool is_known =
                user.descriptors() != 0 || user.refusals().total() != 0 || user.long_rounds().total() != 0;
            if (!is_known || (!reader.sees_all() && &user != &reader.user)) {
                continue;
            }
            json.object({}, [&, &uid = uid, &user = user] {
                json.value("uid", uid);
                json.value("connections", user.count(Resource::kConnections));
                json.value("descriptors", user.descriptors());
                json.value("refusals", user.refusals().total());
                json.value("refusals_not_logged", user.refusals().suppressed());
                json.value("long_rounds", user.long_rounds().total());
            });
        }
    });
}

void write_worker(JsonWriter& json, const ControlState& control, std::uint32_t index, const Reader& reader) {
    json.object({}, [&] {
        json.value("index", index);
        json.value("cpu", control.worker_cpus[index]);
        json.value("qps", reader.sees_all() ? control.worker_qps[index] : reader.own.qps_of_worker(index));
        json.value("long_rounds", control.workers[index]->long_rounds());
        json.value("sleeping", control.daemon_state().workers[index].sleeping.load() != 0);
    });
}

void write_turns(JsonWriter& json, const char* name, const TurnTimes& turns, bool has_cpu_time) {
    json.object(name, [&] {
        json.value("number", turns.number());
        json.value("over_2_ms", turns.num_long());
        json.value("longest_ns", turns.longest_ns());
        if (has_cpu_time) {
            json.value("longest_cpu_ns", turns.longest_cpu_ns());
        }
    });
}

/// For the privileged: what others have asked for.
void write_control_thread(JsonWriter& json, const ControlTurns& turns) {
    json.object("control_thread", [&] {
        write_turns(json, "requests", turns.requests, true);
        write_turns(json, "steps", turns.steps, true);
        write_turns(json, "rounds", turns.rounds, false);
    });
}

void write_switch_port(JsonWriter& json, const dataplane::NetworkPortView& view) {
    json.value("delivered_packets", view.counters.tx_packets);
    json.value("delivered_bytes", view.counters.tx_bytes);
    json.value("marked", view.counters.marked);
    json.value("dropped", view.counters.dropped);
    json.value("queue_bytes", view.queue_bytes);
    json.value("max_queue_bytes", view.counters.most_bytes);
    json.value("most_queue_bytes", view.counters.most_bytes);  // its old name, for one release
    json.value("pauses_sent", view.counters.pauses_sent);
    json.value("pauses_received", view.counters.pauses_received);
    json.value("watchdog_trips", view.counters.watchdog_trips);
    json.value("watchdog_dropped", view.counters.watchdog_dropped);
}

const char* state_name(netsim::IbPortState state) {
    switch (state) {
        case netsim::IbPortState::kDown:
            return "DOWN";
        case netsim::IbPortState::kInit:
            return "INIT";
        case netsim::IbPortState::kArmed:
            return "ARMED";
        case netsim::IbPortState::kActive:
            break;
    }
    return "ACTIVE";
}

// Of the switch's port: what comes from the RNIC or the other switch, and what goes there.
void write_infiniband_port(JsonWriter& json, const dataplane::NetworkPortView& view) {
    const netsim::IbPortCounters& counters = view.infiniband;
    json.value("state", state_name(view.state));
    json.value("port_xmit_data", counters.xmit_data);
    json.value("port_rcv_data", counters.rcv_data);
    json.value("port_xmit_packets", counters.xmit_packets);
    json.value("port_rcv_packets", counters.rcv_packets);
    json.value("port_xmit_wait_ns", counters.xmit_wait_ns);
    json.value("port_xmit_discards", counters.xmit_discards);
    json.value("port_rcv_errors", counters.rcv_errors);
    json.value("port_rcv_switch_relay_errors", counters.rcv_switch_relay_errors);
    json.value("port_rcv_constraint_errors", counters.rcv_constraint_errors);
    json.value("port_xmit_constraint_errors", counters.xmit_constraint_errors);
    json.value("vl15_dropped", counters.vl15_dropped);
    json.value("link_downed", counters.link_downed);
}

void write_networks(JsonWriter& json, const ControlState& control, const char* name) {
    json.array(name, [&] {
        for (const EmulatedNetworkInfo& network : control.networks) {
            std::vector<dataplane::NetworkPortView> views(network.devices.size() + network.trunks.size());
            control.workers[0]->call([&] {
                for (std::uint32_t port = 0; port < views.size(); ++port) {
                    views[port] = network.view(port);
                }
            });
            json.object({}, [&] {
                json.value("fabric", network.fabric);
                json.array("ports", [&] {
                    for (std::size_t port = 0; port < network.devices.size(); ++port) {
                        json.object({}, [&] {
                            json.value("device", network.devices[port]);
                            json.value("sent_packets", views[port].sent_packets);
                            json.value("sent_bytes", views[port].sent_bytes);
                            write_switch_port(json, views[port]);
                            if (network.is_infiniband) {
                                write_infiniband_port(json, views[port]);
                            }
                        });
                    }
                });
                json.array("trunks", [&] {
                    for (std::size_t trunk = 0; trunk < network.trunks.size(); ++trunk) {
                        json.object({}, [&] {
                            json.value("port", network.trunks[trunk]);
                            write_switch_port(json, views[network.devices.size() + trunk]);
                            if (network.is_infiniband) {
                                write_infiniband_port(json, views[network.devices.size() + trunk]);
                            }
                        });
                    }
                });
            });
        }
    });
}

void write_fabrics(JsonWriter& json, const ControlState& control) {
    json.array("fabrics", [&] {
        for (const FabricInfo& fabric : control.fabrics) {
            json.object({}, [&] {
                json.value("fabric", fabric.name);
                json.value("unknown_destinations", fabric.unknown_destinations());
            });
        }
    });
}

}  // namespace

void write_status(JsonWriter& json, const ControlState& control, const User& user, const ObjectCounter& own) {
    const Reader reader{user, own};
    write_daemon(json, control, reader);
    json.array("devices", [&] {
        for (const auto& device : control.devices) {
            write_device(json, *device, control, reader);
        }
    });
    json.array("workers", [&] {
        for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
            write_worker(json, control, w, reader);
        }
    });
    if (reader.sees_all()) {
        write_control_thread(json, control.turns);
    }
    write_fabrics(json, control);
    write_networks(json, control, "networks");
    write_networks(json, control, "wires");  // the old name, for one release
    write_faults(json, control.faults.rules_for(user));
    write_users(json, control, reader);
}

}  // namespace urnic::daemon
