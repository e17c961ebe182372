// Management datagrams as octets that agents read and change in place: what they do not touch is answered as
// it came (IBA 13.4.6).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "rnic/wire/fields.h"
#include "rnic/wire/mad/mad.h"

namespace urnic::subnet {

using wire::load_be16;
using wire::load_be32;
using wire::load_be64;
using wire::store_be16;
using wire::store_be64;

using MadBytes = std::array<std::byte, wire::kMadBytes>;

inline constexpr std::uint8_t kBaseVersion = 1;
inline constexpr std::uint8_t kSubnetClassVersion = 1;
inline constexpr std::uint16_t kPermissiveLid = 0xffff;
inline constexpr std::uint16_t kLastUnicastLid = 0xbfff;

/// Of the common header (IBA 13.4.7): what is wrong, in bits 2 to 4.
enum MadStatus : std::uint16_t {
    kStatusGood = 0,
    kStatusBadVersion = 1U << 2U,  // or class
    kStatusBadMethod = 2U << 2U,
    kStatusBadAttribute = 3U << 2U,  // that this method does not have
    kStatusBadValue = 7U << 2U,      // in the attribute or its modifier
};

/// The common header's fields where they lie.
class MadRef {
  public:
    explicit MadRef(MadBytes& bytes) : bytes_(&bytes) {}

    [[nodiscard]] std::uint8_t base_version() const { return octet(0); }
    [[nodiscard]] std::uint8_t mgmt_class() const { return octet(1); }
    [[nodiscard]] std::uint8_t class_version() const { return octet(2); }
    [[nodiscard]] std::uint8_t method() const { return octet(3); }
    [[nodiscard]] bool is_response() const { return (method() & 0x80U) != 0; }
    [[nodiscard]] std::uint64_t transaction_id() const { return load_be64(at(8)); }
    [[nodiscard]] std::uint16_t attribute_id() const { return load_be16(at(16)); }
    [[nodiscard]] std::uint32_t attribute_modifier() const { return load_be32(at(20)); }
    [[nodiscard]] std::uint16_t status() const {
        return load_be16(at(4)) & (is_directed() ? 0x7fffU : 0xffffU);
    }
    void set_method(std::uint8_t method) { *at(3) = std::byte{method}; }
    void set_transaction_id(std::uint64_t id) { store_be64(at(8), id); }
    /// Leaves the D bit of a directed route alone.
    void set_status(std::uint16_t status) {
        const std::uint16_t kept = is_directed() ? load_be16(at(4)) & 0x8000U : 0;
        store_be16(at(4), static_cast<std::uint16_t>(kept | status));
    }

    // Of subnet management packets.
    [[nodiscard]] bool is_directed() const { return mgmt_class() == wire::kMadClassSubnetDirected; }
    [[nodiscard]] bool is_subnet_management() const {
        return is_directed() || mgmt_class() == wire::kMadClassSubnetLidRouted;
    }
    [[nodiscard]] std::uint64_t m_key() const { return load_be64(at(24)); }
    // And of those with a directed route (IBA 14.2.1.2). `hop` is below 64.
    [[nodiscard]] bool is_returning() const { return (octet(4) & 0x80U) != 0; }
    void set_returning() { *at(4) |= std::byte{0x80}; }
    [[nodiscard]] std::uint8_t hop_pointer() const { return octet(6); }
    void set_hop_pointer(std::uint8_t hop) { *at(6) = std::byte{hop}; }
    [[nodiscard]] std::uint8_t hop_count() const { return octet(7); }
    [[nodiscard]] std::uint16_t dr_slid() const { return load_be16(at(32)); }
    [[nodiscard]] std::uint16_t dr_dlid() const { return load_be16(at(34)); }
    [[nodiscard]] std::uint8_t initial_path(std::size_t hop) const { return octet(128 + hop); }
    [[nodiscard]] std::uint8_t return_path(std::size_t hop) const { return octet(192 + hop); }
    void set_return_path(std::size_t hop, std::uint8_t port) { *at(192 + hop) = std::byte{port}; }

    /// An attribute that lies at `offset`, by its table.
    template <class T>
    [[nodiscard]] T read(const wire::HeaderTable& table, std::size_t offset) const {
        T attribute;
        wire::read_fields(table, at(offset), &attribute);
        return attribute;
    }
    template <class T>
    void write(const wire::HeaderTable& table, std::size_t offset, const T& attribute) {
        wire::write_fields(table, &attribute, at(offset));
    }
    [[nodiscard]] std::byte* at(std::size_t offset) const { return bytes_->data() + offset; }

  private:
    [[nodiscard]] std::uint8_t octet(std::size_t offset) const {
        return std::to_integer<std::uint8_t>(*at(offset));
    }
    MadBytes* bytes_;
};

/// Makes a response of a Get or Set: GetResp, the status, and for a directed route the way back.
inline void make_response(MadRef mad, std::uint16_t status) {
    mad.set_method(wire::kMadGetResponse);
    mad.set_status(status);
    if (mad.is_directed()) {
        mad.set_returning();
    }
}

}  // namespace urnic::subnet
