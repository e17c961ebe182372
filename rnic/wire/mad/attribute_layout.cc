#include "rnic/wire/mad/attribute_layout.h"

#include <algorithm>

#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/mad/mad.h"
#include "rnic/wire/mad/performance_attributes.h"
#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::wire::mad {

namespace {

/// As many parts as any attribute has.
struct Layout {
    std::uint8_t mgmt_class;
    std::uint16_t attribute_id;
    std::uint16_t num_parts;
    AttributePart parts[3];
};

constexpr std::uint8_t kSm = kMadClassSubnetLidRouted;
constexpr std::uint8_t kSa = kMadClassSubnetAdministration;
constexpr std::uint8_t kPm = kMadClassPerformance;

constexpr Layout kLayouts[] = {
    {kSm, 0x0002, 1, {{&kNoticeTable, 0}}},
    {kSm, kNodeDescription, 1, {{&kNodeDescriptionTable, 0}}},
    {kSm, kNodeInfo, 1, {{&kNodeInfoTable, 0}}},
    {kSm, kSwitchInfo, 1, {{&kSwitchInfoTable, 0}}},
    {kSm, kGuidInfo, 1, {{&kGuidInfoTable, 0}}},
    {kSm, kPortInfo, 1, {{&kPortInfoTable, 0}}},
    {kSm, kPkeyTable, 1, {{&kPkeyBlockTable, 0}}},
    {kSm, kSlToVlMapping, 1, {{&kSlToVlMappingTable, 0}}},
    {kSm, kVlArbitration, 1, {{&kVlArbitrationTable, 0}}},
    {kSm, kLinearForwarding, 1, {{&kLinearForwardingTable, 0}}},
    {kSm, kRandomForwarding, 1, {{&kRandomForwardingTable, 0}}},
    {kSm, kMulticastForwarding, 1, {{&kMulticastForwardingTable, 0}}},
    {kSm, kSmInfo, 1, {{&kSmInfoTable, 0}}},
    {kPm, 0x0001, 1, {{&kClassPortInfoTable, 0}}},
    {kPm, kPortCounters, 1, {{&kPortCountersTable, 0}}},
    {kPm, kPortCountersExtended, 1, {{&kPortCountersExtendedTable, 0}}},
    {kSa, 0x0001, 1, {{&kClassPortInfoTable, 0}}},
    {kSa, kNotice, 2, {{&kNoticeTable, 0}, {&kNoticeIssuerTable, 64}}},
    {kSa, kInformInfo, 1, {{&kInformInfoTable, 0}}},
    {kSa, 0x0011, 3, {{&kLidRecordTable, 0}, {&kNodeInfoTable, 4}, {&kNodeDescriptionTable, 44}}},
    {kSa, 0x0012, 2, {{&kPortRecordTable, 0}, {&kPortInfoTable, 4}}},
    {kSa, 0x0013, 2, {{&kTwoPortRecordTable, 0}, {&kSlToVlMappingTable, 8}}},
    {kSa, 0x0014, 2, {{&kLidRecordTable, 0}, {&kSwitchInfoTable, 4}}},
    {kSa, 0x0015, 2, {{&kBlockRecordTable, 0}, {&kLinearForwardingTable, 8}}},
    {kSa, 0x0017, 2, {{&kMulticastBlockRecordTable, 0}, {&kMulticastForwardingTable, 8}}},
    {kSa, kSmInfoRecord, 2, {{&kLidRecordTable, 0}, {&kSmInfoTable, 4}}},
    {kSa, 0x0020, 1, {{&kLinkRecordTable, 0}}},
    {kSa, 0x0030, 2, {{&kGuidBlockRecordTable, 0}, {&kGuidInfoTable, 8}}},
    {kSa, 0x0031, 1, {{&kServiceRecordTable, 0}}},
    {kSa, 0x0033, 2, {{&kPkeyBlockRecordTable, 0}, {&kPkeyBlockTable, 8}}},
    {kSa, 0x0035, 1, {{&kPathRecordTable, 0}}},
    {kSa, 0x0036, 2, {{&kTwoPortRecordTable, 0}, {&kVlArbitrationTable, 8}}},
    {kSa, 0x0038, 1, {{&kMcMemberRecordTable, 0}}},
    {kSa, kInformInfoRecord, 2, {{&kSubscriberRecordTable, 0}, {&kInformInfoTable, 24}}},
};

}  // namespace

std::span<const AttributePart> attribute_parts(std::uint8_t mgmt_class, std::uint16_t attribute_id) {
    if (mgmt_class == kMadClassSubnetDirected) {
        mgmt_class = kMadClassSubnetLidRouted;
    }
    const auto* layout = std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& candidate) {
        return candidate.mgmt_class == mgmt_class && candidate.attribute_id == attribute_id;
    });
    return layout == std::end(kLayouts) ? std::span<const AttributePart>()
                                        : std::span<const AttributePart>(layout->parts, layout->num_parts);
}

std::size_t attribute_bytes(std::span<const AttributePart> parts) {
    return parts.empty() ? 0 : parts.back().offset_bytes + parts.back().table->length_bytes;
}

std::size_t attribute_offset(std::uint8_t mgmt_class) {
    switch (mgmt_class) {
        case kMadClassSubnetLidRouted:
        case kMadClassSubnetDirected:
        case kMadClassPerformance:
            return kPerformanceDataOffset;
        case kMadClassSubnetAdministration:
            return kSaDataOffset;
        default:
            return 0;
    }
}

}  // namespace urnic::wire::mad
