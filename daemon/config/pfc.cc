#include "daemon/config/pfc.h"

#include <fmt/format.h>

#include <algorithm>

namespace urnic::daemon {

namespace {

constexpr std::int64_t kMaxMbps = 1'000'000;
constexpr std::int64_t kMaxWatchdogMs = 60'000;
constexpr std::int64_t kMaxFrames = 65'535;

}  // namespace

void read_priorities(TableReader& reader, const char* key, std::uint8_t& priorities) {
    constexpr const char* kWanted = "must be a list of different priorities from 0 to 7, for example [3]";
    const toml::array* const list = reader.find_list(key, 0, wire::kPriorities, kWanted);
    if (list == nullptr) {
        return;
    }
    std::uint32_t bits = 0;
    for (const auto& entry : *list) {
        const std::uint32_t bit = 1U << reader.whole_at(entry, key, 0, wire::kPriorities - 1, kWanted);
        if ((bits & bit) != 0) {
            reader.fail_at(entry, key, kWanted);
        }
        bits |= bit;
    }
    priorities = static_cast<std::uint8_t>(bits);
}

void read_pfc(TableReader& reader, RnicConfig& rnic) {
    PfcSettings& pfc = rnic.pfc;
    read_priorities(reader, "rx_priorities", pfc.rx_priorities);
    if (const auto mbps = reader.find_whole("link_mbps", 1, kMaxMbps)) {
        pfc.link_bits_per_second = static_cast<BitsPerSecond>(*mbps) * 1'000'000;
    }
    if (const auto ms = reader.find_whole("watchdog_ms", 0, kMaxWatchdogMs)) {
        pfc.watchdog_ns = static_cast<TimeNs>(*ms) * 1'000'000;
    }
    read_priorities(reader, "tx_priorities", pfc.tx_priorities);
    reader.read_whole("xoff_frames", pfc.xoff_frames, 1, kMaxFrames);
    reader.read_whole("xon_frames", pfc.xon_frames, 0, kMaxFrames);
    reader.finish();
    rnic.rx_priorities_given = reader.has("rx_priorities");
    if (pfc.xon_frames >= pfc.xoff_frames) {
        throw_at(reader.table(),
                 fmt::format("[rnic.pfc]: 'xon_frames' ({}) must be less than 'xoff_frames' ({})",
                             pfc.xon_frames, pfc.xoff_frames));
    }
    if (!reader.has("tx_priorities") && (reader.has("xoff_frames") || reader.has("xon_frames"))) {
        throw_at(reader.table(),
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
            throw TomlError{
                {rnic.line, 1},
                fmt::format("[rnic.pfc]: \"{}\" is on a [[network]], where no more than {} frames wait for "
                            "a worker: 'xoff_frames' ({}) must not be more than {}",
                            rnic.name, kMaxXoffFramesOnNetwork + 1, rnic.pfc.xoff_frames,
                            kMaxXoffFramesOnNetwork)};
        }
    }
}

}  // namespace urnic::daemon
