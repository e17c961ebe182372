#include "daemon/config/pfc.h"

#include <fmt/format.h>

#include <algorithm>

namespace urnic::daemon {

namespace {

constexpr std::int64_t kMaxMbps = 1'000'000;
constexpr std::int64_t kMaxWatchdogMs = 60'000;
constexpr std::int64_t kMaxFrames = 65'535;

constexpr Key<PfcSettings> kPfcKeys[] = {
    {"rx_priorities", [](PfcSettings& pfc, const toml::node& node,
                         const std::string& key) { pfc.rx_priorities = get_priorities(node, key); }},
    {"link_mbps",
     [](PfcSettings& pfc, const toml::node& node, const std::string& key) {
         pfc.link_bits_per_second = static_cast<std::uint64_t>(get_int(node, key, 1, kMaxMbps)) * 1'000'000;
     }},
    {"watchdog_ms",
     [](PfcSettings& pfc, const toml::node& node, const std::string& key) {
         pfc.watchdog_ns = static_cast<TimeNs>(get_int(node, key, 0, kMaxWatchdogMs)) * 1'000'000;
     }},
    {"tx_priorities", [](PfcSettings& pfc, const toml::node& node,
                         const std::string& key) { pfc.tx_priorities = get_priorities(node, key); }},
    {"xoff_frames",
     [](PfcSettings& pfc, const toml::node& node, const std::string& key) {
         pfc.xoff_frames = static_cast<std::uint32_t>(get_int(node, key, 1, kMaxFrames));
     }},
    {"xon_frames",
     [](PfcSettings& pfc, const toml::node& node, const std::string& key) {
         pfc.xon_frames = static_cast<std::uint32_t>(get_int(node, key, 0, kMaxFrames));
     }},
};

}  // namespace

std::uint8_t get_priorities(const toml::node& node, const std::string& key) {
    const auto* const list = node.as_array();
    std::uint32_t bits = 0;
    bool good = list != nullptr;
    for (std::size_t i = 0; good && i < list->size(); ++i) {
        const auto* const number = (*list)[i].as_integer();
        good = number != nullptr && number->get() >= 0 && number->get() < wire::kPriorities &&
               (bits >> number->get() & 1U) == 0;
        bits |= good ? 1U << number->get() : 0U;
    }
    if (!good) {
        throw_at(node, fmt::format("'{}' must be a list of different priorities from 0 to 7, for example [3]",
                                   key));
    }
    return static_cast<std::uint8_t>(bits);
}

void read_pfc(const toml::node& node, RnicConfig& rnic) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
        throw_at(node, "'pfc' must be a table: [rnic.pfc], behind its [[rnic]]");
    }
    read_table(*table, "[rnic.pfc]", kPfcKeys, rnic.pfc);
    rnic.rx_priorities_given = table->contains("rx_priorities");
    const PfcSettings& pfc = rnic.pfc;
    if (pfc.xon_frames >= pfc.xoff_frames) {
        throw_at(node, fmt::format("[rnic.pfc]: 'xon_frames' ({}) must be less than 'xoff_frames' ({})",
                                   pfc.xon_frames, pfc.xoff_frames));
    }
    if (!table->contains("tx_priorities") &&
        (table->contains("xoff_frames") || table->contains("xon_frames"))) {
        throw_at(node,
                 "[rnic.pfc]: 'xoff_frames' and 'xon_frames' need 'tx_priorities', the priorities to "
                 "pause, for example [3]");
    }
}

void finish_pfc(Config& config) {
    for (RnicConfig& rnic : config.rnics) {
        const auto network = std::find_if(
            config.networks.begin(), config.networks.end(),
            [&](const NetworkConfig& candidate) { return candidate.fabric == rnic.port_device; });
        if (rnic.port != PortKind::kFabric || network == config.networks.end()) {
            continue;
        }
        // Its switch, which is this configuration's own, is the only one that can pause it.
        if (!rnic.rx_priorities_given) {
            rnic.pfc.rx_priorities = network->pfc.lossless;
        }
        if (rnic.pfc.tx_priorities != 0 && rnic.pfc.xoff_frames > kMaxXoffFramesOnNetwork) {
            throw ParseError{
                {rnic.line, 1},
                fmt::format("[rnic.pfc]: \"{}\" is on a [[network]], where no more than {} frames wait for "
                            "a worker: 'xoff_frames' ({}) must not be more than {}",
                            rnic.name, kMaxXoffFramesOnNetwork + 1, rnic.pfc.xoff_frames,
                            kMaxXoffFramesOnNetwork)};
        }
    }
}

}  // namespace urnic::daemon
