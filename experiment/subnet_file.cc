#include "experiment/subnet_file.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "experiment/table_reader.h"
#include "netsim/infiniband/credits.h"

namespace urnic::experiment {

namespace {

constexpr std::uint64_t kLargestLife = 31;  // five bits; from 20 on without end (IBA 14.2.5.6)
constexpr std::uint64_t kDroppingVl = 15;
// Of the longest packet, and of what credits can count.
constexpr std::uint64_t kLeastVlBuffer = 4'224;
constexpr std::uint64_t kMostVlBuffer = std::uint64_t{netsim::kMostCreditBlocks} * netsim::kCreditBlockBytes;
constexpr std::uint64_t kDefaultVlBuffer = 65'536;

std::optional<netsim::VlArbiter::Table> read_arbitration(TableReader& reader, const char* key) {
    netsim::VlArbiter::Table table{};
    const auto pairs = reader.pairs(key, table.size(), netsim::kDataVls - 1, 255);
    if (!reader.has(key)) {
        return std::nullopt;
    }
    std::transform(pairs.begin(), pairs.end(), table.begin(), [](const auto& pair) {
        return netsim::VlArbitrationEntry{static_cast<std::uint8_t>(pair.first),
                                          static_cast<std::uint8_t>(pair.second)};
    });
    return table;
}

void read_sl_to_vl(TableReader& reader, std::uint64_t vls, netsim::IbNetworkOptions& options) {
    const std::vector<std::uint64_t> list = reader.wholes("sl_to_vl", netsim::kSls, kDroppingVl);
    if (!reader.has("sl_to_vl")) {
        return;
    }
    auto& table = options.sl_to_vl.emplace();
    for (std::size_t sl = 0; sl < table.size(); ++sl) {
        if (list[sl] != kDroppingVl && list[sl] >= vls) {
            reader.fail("sl_to_vl", "names VL " + std::to_string(list[sl]) + ", but there are VLs 0 to " +
                                        std::to_string(vls - 1) + " ('vls')");
        }
        table[sl] = static_cast<std::uint8_t>(list[sl]);
    }
}

}  // namespace

netsim::IbNetworkOptions read_subnet(const toml::table* table) {
    const toml::table nothing;
    TableReader reader(table != nullptr ? *table : nothing, "[subnet]");
    netsim::IbNetworkOptions options;
    netsim::IbPortInfo& info = options.port.info;
    const std::uint64_t vls = reader.whole("vls", 1, netsim::kDataVls, info.operational_vls);
    if (vls != 1 && vls != 2 && vls != 4 && vls != 8 && vls != 15) {
        reader.fail("vls", "must be 1, 2, 4, 8 or 15");
    }
    info.vl_cap = info.operational_vls = static_cast<std::uint8_t>(vls);
    read_sl_to_vl(reader, vls, options);
    options.vl_high = read_arbitration(reader, "vl_high");
    options.vl_low = read_arbitration(reader, "vl_low");
    options.vl_high_limit = static_cast<std::uint8_t>(reader.whole("vl_high_limit", 0, 255, 0));
    const std::uint64_t buffer =
        reader.whole("vl_buffer_bytes", kLeastVlBuffer, kMostVlBuffer, kDefaultVlBuffer);
    options.port.vl_buffer_blocks = static_cast<std::uint32_t>(buffer / netsim::kCreditBlockBytes);
    info.hoq_life = static_cast<std::uint8_t>(reader.whole("hoq_life", 0, kLargestLife, info.hoq_life));
    options.switches.life_time =
        static_cast<std::uint8_t>(reader.whole("switch_life", 0, kLargestLife, options.switches.life_time));
    reader.finish();
    return options;
}

}  // namespace urnic::experiment
