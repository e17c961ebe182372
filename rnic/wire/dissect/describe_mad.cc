#include "rnic/wire/dissect/describe_mad.h"

#include <algorithm>
#include <type_traits>

#include "rnic/wire/dissect/table_layer.h"
#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/mad/attribute_layout.h"
#include "rnic/wire/mad/cm.h"
#include "rnic/wire/mad/mad.h"
#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::wire {

namespace {

/// The RDMA IP CM service's own header lies at the front of the private data of REQ and SIDR_REQ, unless
/// they are AF_IB's.
template <class M>
void add_ip_cm_header(const M& message, std::vector<Layer>& layers) {
    if constexpr (requires { message.service_id; }) {
        if (!std::is_same_v<M, cm::SidrRep> && cm::is_ip_cm_service(message.service_id)) {
            cm::IpCmHeader header;
            read_fields(cm::kIpCmHeaderTable, reinterpret_cast<const std::byte*>(message.private_data.data()),
                        &header);
            if (is_known_version(header)) {
                layers.push_back(layer_of(cm::kIpCmHeaderTable, &header));
            }
        }
    }
}

void add_cm_message(std::uint16_t attribute_id, std::span<const std::byte> body, std::vector<Layer>& layers) {
    if (body.size() < cm::kMessageBytes) {
        return;
    }
    const std::optional<cm::Message> message =
        cm::parse_message(attribute_id, body.first<cm::kMessageBytes>());
    if (!message) {
        return;
    }
    std::visit(
        [&layers](const auto& one) {
            layers.push_back(layer_of(one.table(), &one));
            add_ip_cm_header(one, layers);
        },
        *message);
}

/// Room for the structure of any attribute.
struct alignas(16) AttributeObject {
    std::byte bytes[kMadBytes]{};
};

void add_attribute(std::span<const mad::AttributePart> parts, std::span<const std::byte> data,
                   std::vector<Layer>& layers) {
    for (const mad::AttributePart& part : parts) {
        if (data.size() < part.offset_bytes + part.table->length_bytes) {
            return;
        }
        AttributeObject object;
        read_fields(*part.table, data.data() + part.offset_bytes, &object);
        layers.push_back(layer_of(*part.table, &object));
    }
}

/// The details of a notice, which each trap has its own form of.
void add_notice_details(std::span<const std::byte> data, std::vector<Layer>& layers) {
    if (data.size() < mad::kNoticeTable.length_bytes) {
        return;
    }
    mad::Notice notice;
    read_fields(mad::kNoticeTable, data.data(), &notice);
    const auto add = [&]<class Details>(const HeaderTable& table, Details details) {
        read_fields(table, data.data() + mad::kDataDetailsOffset, &details);
        layers.push_back(layer_of(table, &details));
    };
    if (!notice.is_generic) {
        return;
    }
    switch (notice.trap_number) {
        case mad::kGidInServiceTrap:
        case mad::kGidOutOfServiceTrap:
        case mad::kGroupCreatedTrap:
        case mad::kGroupDeletedTrap:
            return add(mad::kNoticeGidTable, mad::NoticeGid{});
        case mad::kLinkTrap:
            return add(mad::kNoticeLinkTable, mad::NoticeLink{});
        case mad::kCapabilityTrap:
            return add(mad::kNoticeCapabilityTable, mad::NoticeCapability{});
        case mad::kBadMKeyTrap:
            return add(mad::kNoticeMKeyTable, mad::NoticeMKey{});
        case mad::kBadPkeyTrap:
        case mad::kBadQkeyTrap:
            return add(mad::kNoticeKeysTable, mad::NoticeKeys{});
        case mad::kSwitchBadPkeyTrap:
            return add(mad::kNoticeSwitchPkeyTable, mad::NoticeSwitchPkey{});
        default:
            return;
    }
}

bool is_table_response(std::uint8_t method) {
    constexpr std::uint8_t kGetTableResponse = 0x92;
    constexpr std::uint8_t kGetMultiResponse = 0x94;
    return method == kGetTableResponse || method == kGetMultiResponse;
}

/// Subnet administration: RMPP and SA header, then one record, or of a table those that lie in this segment
/// whole. `payload` begins behind the common header.
void add_administration(const MadHeader& header, std::span<const std::byte> payload,
                        std::vector<Layer>& layers) {
    mad::Rmpp rmpp;
    mad::SaHeader sa;
    if (!take_layer(mad::kRmppTable, payload, rmpp, layers) ||
        !take_layer(mad::kSaHeaderTable, payload, sa, layers)) {
        return;
    }
    const std::span<const mad::AttributePart> parts =
        mad::attribute_parts(header.mgmt_class, header.attribute_id);
    const std::size_t record_bytes = mad::attribute_bytes(parts);
    if (!is_table_response(header.method)) {
        add_attribute(parts, payload, layers);
        if (header.attribute_id == mad::kNotice) {
            add_notice_details(payload, layers);
        }
        return;
    }
    const std::size_t stride = std::size_t{sa.attribute_offset} * 8;
    if (rmpp.type != mad::kRmppData || record_bytes == 0 || stride < record_bytes) {
        return;
    }
    constexpr std::uint64_t kSegmentBytes = kMadBytes - mad::kSaDataOffset;
    std::size_t end = payload.size();
    if ((rmpp.flags & mad::kRmppLast) != 0) {
        // The length of the last segment counts its SA header.
        end = std::clamp<std::size_t>(rmpp.data2, mad::kSaHeaderTable.length_bytes, kMadBytes) -
              mad::kSaHeaderTable.length_bytes;
        end = std::min(end, payload.size());
    }
    const std::uint64_t before = rmpp.data1 == 0 ? 0 : (rmpp.data1 - std::uint64_t{1}) * kSegmentBytes;
    for (std::size_t at = (stride - before % stride) % stride; at + record_bytes <= end; at += stride) {
        add_attribute(parts, payload.subspan(at), layers);
    }
}

}  // namespace

void add_mad(std::span<const std::byte> payload, std::vector<Layer>& layers) {
    if (payload.size() < kMadHeaderBytes) {
        return;
    }
    const std::span<const std::byte> whole = payload;
    MadHeader header;
    read_fields(kMadTable, payload.data(), &header);
    const bool is_directed = header.mgmt_class == kMadClassSubnetDirected;
    SmpDirected directed;
    if (is_directed ? !take_layer(kSmpDirectedTable, payload, directed, layers)
                    : !take_layer(kMadTable, payload, header, layers)) {
        return;
    }
    if (const char* name = mad_attribute_name(header.mgmt_class, header.attribute_id)) {
        layers.back().fields.push_back({"attribute", name});
    }
    if (header.mgmt_class == kMadClassCommunication) {
        add_cm_message(header.attribute_id, payload, layers);
        return;
    }
    if (header.mgmt_class == kMadClassSubnetAdministration) {
        add_administration(header, payload, layers);
        return;
    }
    SmpLidRouted lid_routed;
    if (header.mgmt_class == kMadClassSubnetLidRouted &&
        !take_layer(kSmpLidRoutedTable, payload, lid_routed, layers)) {
        return;
    }
    const std::size_t offset = mad::attribute_offset(header.mgmt_class);
    if (offset != 0 && whole.size() > offset) {
        add_attribute(mad::attribute_parts(header.mgmt_class, header.attribute_id), whole.subspan(offset),
                      layers);
        if (header.attribute_id == mad::kNotice) {
            add_notice_details(whole.subspan(offset), layers);
        }
    }
}

}  // namespace urnic::wire
