#include "rnic/wire/dissect/ib/link.h"

#include "rnic/wire/dissect/eth/headers.h"

namespace urnic::wire {

namespace {

const char* lnh_name(std::uint64_t value) {
    constexpr std::array<const char*, 4> kNames = {"raw", "IPv6", "IBA local", "IBA global"};
    return value < kNames.size() ? kNames[value] : nullptr;
}

const char* next_header_name(std::uint64_t value) {
    return value == kNextHeaderIba ? "IBA transport" : ip_protocol_name(value);
}

using enum FieldFormat;

constexpr Field kLrhFields[] = {
    URNIC_WIRE_FIELD(Lrh, vl, 0, 4, kDecimal), URNIC_WIRE_FIELD(Lrh, lver, 4, 4, kDecimal),
    URNIC_WIRE_FIELD(Lrh, sl, 8, 4, kDecimal), URNIC_WIRE_NAMED(Lrh, lnh, 14, 2, kDecimal, lnh_name),
    URNIC_WIRE_FIELD(Lrh, dlid, 16, 16, kHex), URNIC_WIRE_FIELD(Lrh, length_words, 37, 11, kDecimal),
    URNIC_WIRE_FIELD(Lrh, slid, 48, 16, kHex),
};
static_assert(well_formed(kLrhFields, kLrhBytes));

constexpr Field kGrhFields[] = {
    URNIC_WIRE_FIELD(Grh, version, 0, 4, kDecimal),
    URNIC_WIRE_FIELD(Grh, traffic_class, 4, 8, kHex),
    URNIC_WIRE_FIELD(Grh, flow_label, 12, 20, kHex),
    URNIC_WIRE_FIELD(Grh, payload_length, 32, 16, kDecimal),
    URNIC_WIRE_NAMED(Grh, next_header, 48, 8, kHex, next_header_name),
    URNIC_WIRE_FIELD(Grh, hop_limit, 56, 8, kDecimal),
    URNIC_WIRE_FIELD(Grh, src_gid, 64, 128, kGid),
    URNIC_WIRE_FIELD(Grh, dst_gid, 192, 128, kGid),
};
static_assert(well_formed(kGrhFields, kGrhBytes));

constexpr Field kRawHeaderFields[] = {
    URNIC_WIRE_NAMED(RawHeader, ether_type, 16, 16, kHex, ether_type_name),
};
static_assert(well_formed(kRawHeaderFields, kRawHeaderBytes));

}  // namespace

const HeaderTable kLrhTable = {"LRH", kLrhBytes, kLrhFields};
const HeaderTable kGrhTable = {"GRH", kGrhBytes, kGrhFields};
const HeaderTable kIpv6Table = {"IPv6", kGrhBytes, kGrhFields};
const HeaderTable kRawHeaderTable = {"RWH", kRawHeaderBytes, kRawHeaderFields};

}  // namespace urnic::wire
