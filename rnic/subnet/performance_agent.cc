#include "rnic/subnet/performance_agent.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "rnic/wire/mad/performance_attributes.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;
using enum PortCounter;

constexpr std::size_t kPerformanceData = mad::kPerformanceDataOffset;
constexpr std::uint8_t kPerformanceClassVersion = 1;
constexpr std::uint16_t kClassPortInfoId = 0x0001;
/// ClassPortInfo:CapabilityMask: it has PortCountersExtended.
constexpr std::uint16_t kIsExtendedWidthSupported = 1U << 9U;

/// One counter of an attribute: its field, and the bit of CounterSelect (or, from 16 on, CounterSelect2) with
/// which a Set writes it (IBA tables 233 and 243).
struct Register {
    PortCounter counter;
    std::uint16_t bit_offset;
    std::uint16_t bit_width;
    std::uint8_t select;
};
constexpr Register kRegisters[] = {
    {kSymbolError, 32, 16, 0},
    {kLinkErrorRecovery, 48, 8, 1},
    {kLinkDowned, 56, 8, 2},
    {kRcvErrors, 64, 16, 3},
    {kRcvRemotePhysicalErrors, 80, 16, 4},
    {kRcvSwitchRelayErrors, 96, 16, 5},
    {kXmitDiscards, 112, 16, 6},
    {kXmitConstraintErrors, 128, 8, 7},
    {kRcvConstraintErrors, 136, 8, 8},
    {kLocalLinkIntegrityErrors, 152, 4, 9},
    {kExcessiveBufferOverrunErrors, 156, 4, 10},
    {kVl15Dropped, 176, 16, 11},
    {kXmitData, 192, 32, 12},
    {kRcvData, 224, 32, 13},
    {kXmitPkts, 256, 32, 14},
    {kRcvPkts, 288, 32, 15},
    {kXmitWait, 320, 32, 16},
};
constexpr Register kExtendedRegisters[] = {
    {kXmitData, 64, 64, 0},           {kRcvData, 128, 64, 1},          {kXmitPkts, 192, 64, 2},
    {kRcvPkts, 256, 64, 3},           {kUnicastXmitPkts, 320, 64, 4},  {kUnicastRcvPkts, 384, 64, 5},
    {kMulticastXmitPkts, 448, 64, 6}, {kMulticastRcvPkts, 512, 64, 7},
};

std::uint64_t largest(const Register& one) {
    return one.bit_width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << one.bit_width) - 1;
}

/// A field of whole octets, or of one of the two halves of one.
std::uint64_t load(const std::byte* data, const Register& one) {
    const std::byte* from = data + one.bit_offset / 8;
    std::uint64_t value = 0;
    for (int i = 0; i < std::max(one.bit_width / 8, 1); ++i) {
        value = value << 8U | std::to_integer<std::uint64_t>(from[i]);
    }
    return one.bit_width >= 8 ? value : (one.bit_offset % 8 == 0 ? value >> 4U : value & 0x0fU);
}
void store(std::byte* data, const Register& one, std::uint64_t value) {
    std::byte* to = data + one.bit_offset / 8;
    if (one.bit_width < 8) {
        *to |= static_cast<std::byte>(one.bit_offset % 8 == 0 ? value << 4U : value);
        return;
    }
    for (int i = one.bit_width / 8 - 1; i >= 0; --i, value >>= 8U) {
        to[i] = static_cast<std::byte>(value);
    }
}

}  // namespace

bool PerformanceAgent::handle(MadRef mad, PortCounterSource& source) {
    const std::uint8_t method = mad.method();
    if (mad.is_response() || method == wire::kMadTrap || method == wire::kMadTrapRepress) {
        return false;
    }
    make_response(mad, answer(mad, source));
    return true;
}

std::uint16_t PerformanceAgent::answer(MadRef mad, PortCounterSource& source) {
    if (mad.base_version() != kBaseVersion || mad.class_version() != kPerformanceClassVersion) {
        return kStatusBadVersion;
    }
    const bool is_set = mad.method() == wire::kMadSet;
    if (!is_set && mad.method() != wire::kMadGet) {
        return kStatusBadMethod;
    }
    switch (mad.attribute_id()) {
        case kClassPortInfoId: {
            if (is_set) {
                return kStatusBadAttribute;
            }
            mad::ClassPortInfo info;
            info.base_version = kBaseVersion;
            info.class_version = kPerformanceClassVersion;
            info.capability_mask = kIsExtendedWidthSupported;
            info.resp_time_value = 16;
            mad.write(mad::kClassPortInfoTable, kPerformanceData, info);
            return kStatusGood;
        }
        case mad::kPortCounters:
            return counters(mad, is_set, false, source);
        case mad::kPortCountersExtended:
            return counters(mad, is_set, true, source);
        default:
            return kStatusBadAttribute;
    }
}

std::uint16_t PerformanceAgent::counters(MadRef mad, bool is_set, bool is_extended,
                                         PortCounterSource& source) {
    std::byte* data = mad.at(kPerformanceData);
    const auto port = std::to_integer<std::uint8_t>(data[1]);
    if (port < first_port_ || port > last_port_) {
        return kStatusBadValue;
    }
    PortCounterValues now{};
    source.read(port, now);
    PortCounterValues& bases = is_extended ? bases_[port].extended : bases_[port].counters;
    const std::span<const Register> registers =
        is_extended ? std::span<const Register>(kExtendedRegisters) : std::span<const Register>(kRegisters);
    std::uint32_t selected = load_be16(data + 2);
    if (!is_extended) {
        selected |= std::to_integer<std::uint32_t>(data[18]) << 16U;
    }
    if (is_set) {
        for (const Register& one : registers) {
            if ((selected >> one.select & 1U) != 0) {
                // It continues from the value that is written.
                const auto index = static_cast<std::size_t>(one.counter);
                bases.at(index) = now.at(index) - load(data, one);
            }
        }
    }
    std::fill(data + 4,
              data + (is_extended ? mad::kPortCountersExtendedTable : mad::kPortCountersTable).length_bytes,
              std::byte{0});
    for (const Register& one : registers) {
        const auto index = static_cast<std::size_t>(one.counter);
        store(data, one, std::min(now.at(index) - bases.at(index), largest(one)));
    }
    if (!is_extended) {
        data[18] = static_cast<std::byte>(selected >> 16U);
    }
    return kStatusGood;
}

}  // namespace urnic::subnet
