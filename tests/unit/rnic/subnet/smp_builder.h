// SMPs for tests.
#pragma once

#include <initializer_list>
#include <utility>

#include "rnic/subnet/mad_packet.h"
#include "rnic/subnet/smp.h"
#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::subnet::test {

inline constexpr std::size_t kSmpData = 64;

/// A request with a LID route.
inline MadBytes lid_routed(std::uint8_t method, std::uint16_t attribute, std::uint32_t modifier = 0,
                           std::uint64_t m_key = 0) {
    MadBytes bytes{};
    wire::MadHeader header;
    header.mgmt_class = wire::kMadClassSubnetLidRouted;
    header.class_version = 1;
    header.method = method;
    header.transaction_id = 0x1234;
    header.attribute_id = attribute;
    header.attribute_modifier = modifier;
    MadRef mad(bytes);
    mad.write(wire::kMadTable, 0, header);
    store_be64(mad.at(24), m_key);
    return bytes;
}

/// The same with a directed one: the ports that it leaves through, the sender's own first.
inline MadBytes directed(std::uint8_t method, std::uint16_t attribute, std::uint32_t modifier,
                         std::initializer_list<std::uint8_t> path) {
    MadBytes bytes = lid_routed(method, attribute, modifier);
    MadRef mad(bytes);
    *mad.at(1) = std::byte{wire::kMadClassSubnetDirected};
    *mad.at(7) = static_cast<std::byte>(path.size());
    store_be16(mad.at(32), kPermissiveLid);
    store_be16(mad.at(34), kPermissiveLid);
    std::size_t hop = 1;
    for (const std::uint8_t port : path) {
        *mad.at(128 + hop++) = std::byte{port};
    }
    return bytes;
}

inline MadPacket packet_of(const MadBytes& mad, std::uint16_t dlid = kPermissiveLid) {
    MadPacket packet;
    packet.dlid = dlid;
    packet.mad = mad;
    return packet;
}

template <class T>
void put(MadBytes& bytes, const wire::HeaderTable& table, const T& attribute) {
    MadRef(bytes).write(table, kSmpData, attribute);
}
template <class T>
T take(MadBytes bytes, const wire::HeaderTable& table) {
    return MadRef(bytes).read<T>(table, kSmpData);
}

}  // namespace urnic::subnet::test
