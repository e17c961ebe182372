// Management datagrams (IBA 13.4) and subnet management packets (IBA 14.2).
#pragma once

#include <array>
#include <cstdint>

#include "rnic/wire/fields.h"

namespace urnic::wire {

inline constexpr std::size_t kMadBytes = 256;
inline constexpr std::size_t kMadHeaderBytes = 24;
/// Queue pairs that take MADs, and the Q_Key of the second (IBA 3.9.1, 10.2.5).
inline constexpr std::uint32_t kQp0 = 0;
inline constexpr std::uint32_t kQp1 = 1;
inline constexpr std::uint32_t kGsiQkey = 0x8001'0000;

enum MadClass : std::uint8_t {
    kMadClassSubnetLidRouted = 0x01,
    kMadClassSubnetAdministration = 0x03,
    kMadClassPerformance = 0x04,
    kMadClassCommunication = 0x07,
    kMadClassSubnetDirected = 0x81,
};

enum MadMethod : std::uint8_t {
    kMadGet = 0x01,
    kMadSet = 0x02,
    kMadSend = 0x03,
    kMadTrap = 0x05,
    kMadReport = 0x06,
    kMadTrapRepress = 0x07,
    kMadGetTable = 0x12,  // of subnet administration, as the next
    kMadDelete = 0x15,
    kMadGetResponse = 0x81,
    kMadReportResponse = 0x86,
    kMadGetTableResponse = 0x92,
    kMadDeleteResponse = 0x95,
};

/// The common header.
struct MadHeader {
    std::uint8_t base_version = 1;
    std::uint8_t mgmt_class = 0;
    std::uint8_t class_version = 0;
    std::uint8_t method = 0;  // its top bit: response
    std::uint16_t status = 0;
    std::uint16_t class_specific = 0;
    std::uint64_t transaction_id = 0;
    std::uint16_t attribute_id = 0;
    std::uint32_t attribute_modifier = 0;
    bool operator==(const MadHeader&) const = default;
};
extern const HeaderTable kMadTable;

/// A directed route SMP whole: its header differs from the common one in the status and class specific words.
struct SmpDirected {
    std::uint8_t base_version = 1;
    std::uint8_t mgmt_class = kMadClassSubnetDirected;
    std::uint8_t class_version = 1;
    std::uint8_t method = 0;
    bool direction = false;  // D bit: on the way back
    std::uint16_t status = 0;
    std::uint8_t hop_pointer = 0;
    std::uint8_t hop_count = 0;
    std::uint64_t transaction_id = 0;
    std::uint16_t attribute_id = 0;
    std::uint32_t attribute_modifier = 0;
    std::uint64_t m_key = 0;
    std::uint16_t dr_slid = 0;
    std::uint16_t dr_dlid = 0;
    std::array<std::uint8_t, 64> data{};
    std::array<std::uint8_t, 64> initial_path{};
    std::array<std::uint8_t, 64> return_path{};
    bool operator==(const SmpDirected&) const = default;
};
extern const HeaderTable kSmpDirectedTable;

/// What follows the common header of a LID routed SMP.
struct SmpLidRouted {
    std::uint64_t m_key = 0;
    std::array<std::uint8_t, 64> data{};
    bool operator==(const SmpLidRouted&) const = default;
};
extern const HeaderTable kSmpLidRoutedTable;

/// nullptr: unknown. Attributes belong to their class.
[[nodiscard]] const char* mad_class_name(std::uint64_t mgmt_class);
[[nodiscard]] const char* mad_method_name(std::uint64_t method);
[[nodiscard]] const char* mad_attribute_name(std::uint8_t mgmt_class, std::uint16_t attribute_id);

}  // namespace urnic::wire
