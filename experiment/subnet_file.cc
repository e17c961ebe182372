#include "experiment/subnet_file.h"

#include <fmt/format.h>

#include <bit>

#include "netsim/infiniband/credits.h"

namespace urnic::experiment {

namespace {

constexpr std::int64_t kLargestLife = 31;  // five bits; from 20 on without end (IBA 14.2.5.6)
constexpr std::int64_t kDroppingVl = 15;
// Of the longest packet, and of what credits can count.
constexpr std::int64_t kLeastVlBuffer = 4'224;
constexpr std::int64_t kMostVlBuffer = std::int64_t{netsim::kMostCreditBlocks} * netsim::kCreditBlockBytes;
constexpr std::int64_t kDefaultVlBuffer = 65'536;
constexpr const char* kArbitration =
    "a VL from 0 to 14 and a weight from 0 to 255 in 64 bytes, for example [[0, 64], [1, 192]]";

}  // namespace

netsim::IbNetworkOptions read_subnet(TableReader& reader) {
    netsim::IbNetworkOptions options;
    netsim::IbPortInfo& info = options.port.info;
    reader.read_whole("vls", info.operational_vls, 1, netsim::kDataVls);
    if (!std::has_single_bit(info.operational_vls) && info.operational_vls != netsim::kDataVls) {
        reader.fail("vls", "must be 1, 2, 4, 8 or 15");
    }
    info.vl_cap = info.operational_vls;
    reader.read_wholes("sl_to_vl", options.sl_to_vl, kDroppingVl, "of SL 0 first; 15 drops the packets");
    for (const std::uint8_t vl : options.sl_to_vl.value_or(std::array<std::uint8_t, netsim::kSls>{})) {
        if (vl != kDroppingVl && vl >= info.operational_vls) {
            reader.fail("sl_to_vl", fmt::format("names VL {}, but there are VLs 0 to {} ('vls')", vl,
                                                info.operational_vls - 1));
        }
    }
    reader.read_pairs("vl_high", options.vl_high, netsim::kDataVls - 1, 255, kArbitration);
    reader.read_pairs("vl_low", options.vl_low, netsim::kDataVls - 1, 255, kArbitration);
    reader.read_whole("vl_high_limit", options.vl_high_limit, 0, 255);
    const auto buffer = reader.find_whole("vl_buffer_bytes", kLeastVlBuffer, kMostVlBuffer);
    options.port.vl_buffer_blocks =
        static_cast<std::uint32_t>(buffer.value_or(kDefaultVlBuffer) / netsim::kCreditBlockBytes);
    reader.read_whole("hoq_life", info.hoq_life, 0, kLargestLife);
    reader.read_whole("switch_life", options.switches.life_time, 0, kLargestLife);
    return options;
}

}  // namespace urnic::experiment
