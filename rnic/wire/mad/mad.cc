#include "rnic/wire/mad/mad.h"

namespace urnic::wire {

namespace {

struct ValueText {
    std::uint64_t value;
    const char* name;
};

constexpr ValueText kClasses[] = {
    {kMadClassSubnetLidRouted, "SubnLID"},
    {kMadClassSubnetAdministration, "SubnAdm"},
    {kMadClassPerformance, "Perf"},
    {0x05, "BM"},
    {0x06, "DevMgt"},
    {kMadClassCommunication, "ComMgt"},
    {0x08, "SNMP"},
    {0x10, "DevAdm"},
    {0x11, "BootMgt"},
    {0x12, "BIS"},
    {0x21, "CongMgt"},
    // Of the vendors' classes with an OUI (0x30 to 0x4f) those that OpenIB's programs use, ibping and
    // ibsysstat.
    {0x32, "OpenIB ping"},
    {0x33, "OpenIB SysStat"},
    {kMadClassSubnetDirected, "SubnDR"},
};

// IBA table 118, and the methods of subnet administration (15.4).
constexpr ValueText kMethods[] = {
    {kMadGet, "Get"},
    {kMadSet, "Set"},
    {kMadSend, "Send"},
    {0x05, "Trap"},
    {0x06, "Report"},
    {0x07, "TrapRepress"},
    {0x12, "GetTable"},
    {0x13, "GetTraceTable"},
    {0x14, "GetMulti"},
    {0x15, "Delete"},
    {kMadGetResponse, "GetResp"},
    {0x86, "ReportResp"},
    {0x92, "GetTableResp"},
    {0x93, "GetTraceTableResp"},
    {0x94, "GetMultiResp"},
    {0x95, "DeleteResp"},
};

struct Attribute {
    std::uint8_t mgmt_class;
    std::uint16_t attribute_id;
    const char* name;
};

constexpr std::uint8_t kAnyClass = 0;
constexpr Attribute kAttributes[] = {
    {kAnyClass, 0x0001, "ClassPortInfo"},
    {kAnyClass, 0x0002, "Notice"},
    {kAnyClass, 0x0003, "InformInfo"},
    {kMadClassSubnetLidRouted, 0x0010, "NodeDescription"},
    {kMadClassSubnetLidRouted, 0x0011, "NodeInfo"},
    {kMadClassSubnetLidRouted, 0x0012, "SwitchInfo"},
    {kMadClassSubnetLidRouted, 0x0014, "GUIDInfo"},
    {kMadClassSubnetLidRouted, 0x0015, "PortInfo"},
    {kMadClassSubnetLidRouted, 0x0016, "P_KeyTable"},
    {kMadClassSubnetLidRouted, 0x0017, "SLtoVLMappingTable"},
    {kMadClassSubnetLidRouted, 0x0018, "VLArbitrationTable"},
    {kMadClassSubnetLidRouted, 0x0019, "LinearForwardingTable"},
    {kMadClassSubnetLidRouted, 0x001a, "RandomForwardingTable"},
    {kMadClassSubnetLidRouted, 0x001b, "MulticastForwardingTable"},
    {kMadClassSubnetLidRouted, 0x0020, "SMInfo"},
    {kMadClassSubnetAdministration, 0x0011, "NodeRecord"},
    {kMadClassSubnetAdministration, 0x0012, "PortInfoRecord"},
    {kMadClassSubnetAdministration, 0x0013, "SLtoVLMappingTableRecord"},
    {kMadClassSubnetAdministration, 0x0014, "SwitchInfoRecord"},
    {kMadClassSubnetAdministration, 0x0015, "LinearForwardingTableRecord"},
    {kMadClassSubnetAdministration, 0x0016, "RandomForwardingTableRecord"},
    {kMadClassSubnetAdministration, 0x0017, "MulticastForwardingTableRecord"},
    {kMadClassSubnetAdministration, 0x0018, "SMInfoRecord"},
    {kMadClassSubnetAdministration, 0x00f3, "InformInfoRecord"},
    {kMadClassSubnetAdministration, 0x0020, "LinkRecord"},
    {kMadClassSubnetAdministration, 0x0030, "GUIDInfoRecord"},
    {kMadClassSubnetAdministration, 0x0031, "ServiceRecord"},
    {kMadClassSubnetAdministration, 0x0033, "P_KeyTableRecord"},
    {kMadClassSubnetAdministration, 0x0035, "PathRecord"},
    {kMadClassSubnetAdministration, 0x0036, "VLArbitrationTableRecord"},
    {kMadClassSubnetAdministration, 0x0038, "MCMemberRecord"},
    {kMadClassSubnetAdministration, 0x0039, "TraceRecord"},
    {kMadClassSubnetAdministration, 0x003a, "MultiPathRecord"},
    {kMadClassSubnetAdministration, 0x003b, "ServiceAssociationRecord"},
    {kMadClassPerformance, 0x0012, "PortCounters"},
    {kMadClassPerformance, 0x001d, "PortCountersExtended"},
    {kMadClassCommunication, 0x0010, "ConnectRequest"},
    {kMadClassCommunication, 0x0011, "MsgRcptAck"},
    {kMadClassCommunication, 0x0012, "ConnectReject"},
    {kMadClassCommunication, 0x0013, "ConnectReply"},
    {kMadClassCommunication, 0x0014, "ReadyToUse"},
    {kMadClassCommunication, 0x0015, "DisconnectRequest"},
    {kMadClassCommunication, 0x0016, "DisconnectReply"},
    {kMadClassCommunication, 0x0017, "ServiceIDResReq"},
    {kMadClassCommunication, 0x0018, "ServiceIDResReqResp"},
    {kMadClassCommunication, 0x0019, "LoadAlternatePath"},
    {kMadClassCommunication, 0x001a, "AlternatePathResponse"},
};

template <std::size_t Count>
const char* find_text(const ValueText (&names)[Count], std::uint64_t value) {
    for (const ValueText& entry : names) {
        if (entry.value == value) {
            return entry.name;
        }
    }
    return nullptr;
}

using enum FieldFormat;

constexpr Field kMadFields[] = {
    URNIC_WIRE_FIELD(MadHeader, base_version, 0, 8, kDecimal),
    URNIC_WIRE_NAMED(MadHeader, mgmt_class, 8, 8, kHex, mad_class_name),
    URNIC_WIRE_FIELD(MadHeader, class_version, 16, 8, kDecimal),
    URNIC_WIRE_NAMED(MadHeader, method, 24, 8, kHex, mad_method_name),
    URNIC_WIRE_FIELD(MadHeader, status, 32, 16, kHex),
    URNIC_WIRE_FIELD(MadHeader, class_specific, 48, 16, kHex),
    URNIC_WIRE_FIELD(MadHeader, transaction_id, 64, 64, kHex),
    URNIC_WIRE_FIELD(MadHeader, attribute_id, 128, 16, kHex),
    URNIC_WIRE_FIELD(MadHeader, attribute_modifier, 160, 32, kHex),
};
static_assert(well_formed(kMadFields, kMadHeaderBytes));

// IBA 14.2.1.2: byte 64 begins the data, 128 and 192 the two paths.
constexpr Field kSmpDirectedFields[] = {
    URNIC_WIRE_FIELD(SmpDirected, base_version, 0, 8, kDecimal),
    URNIC_WIRE_NAMED(SmpDirected, mgmt_class, 8, 8, kHex, mad_class_name),
    URNIC_WIRE_FIELD(SmpDirected, class_version, 16, 8, kDecimal),
    URNIC_WIRE_NAMED(SmpDirected, method, 24, 8, kHex, mad_method_name),
    URNIC_WIRE_FIELD(SmpDirected, direction, 32, 1, kDecimal),
    URNIC_WIRE_FIELD(SmpDirected, status, 33, 15, kHex),
    URNIC_WIRE_FIELD(SmpDirected, hop_pointer, 48, 8, kDecimal),
    URNIC_WIRE_FIELD(SmpDirected, hop_count, 56, 8, kDecimal),
    URNIC_WIRE_FIELD(SmpDirected, transaction_id, 64, 64, kHex),
    URNIC_WIRE_FIELD(SmpDirected, attribute_id, 128, 16, kHex),
    URNIC_WIRE_FIELD(SmpDirected, attribute_modifier, 160, 32, kHex),
    URNIC_WIRE_FIELD(SmpDirected, m_key, 192, 64, kHex),
    URNIC_WIRE_FIELD(SmpDirected, dr_slid, 256, 16, kHex),
    URNIC_WIRE_FIELD(SmpDirected, dr_dlid, 272, 16, kHex),
    URNIC_WIRE_FIELD(SmpDirected, data, 512, 512, kBytes),
    URNIC_WIRE_FIELD(SmpDirected, initial_path, 1024, 512, kBytes),
    URNIC_WIRE_FIELD(SmpDirected, return_path, 1536, 512, kBytes),
};
static_assert(well_formed(kSmpDirectedFields, kMadBytes));

constexpr Field kSmpLidRoutedFields[] = {
    URNIC_WIRE_FIELD(SmpLidRouted, m_key, 0, 64, kHex),
    URNIC_WIRE_FIELD(SmpLidRouted, data, 320, 512, kBytes),
};
static_assert(well_formed(kSmpLidRoutedFields, kMadBytes - kMadHeaderBytes));

}  // namespace

const HeaderTable kMadTable = {"MAD", kMadHeaderBytes, kMadFields};
const HeaderTable kSmpDirectedTable = {"SMP directed route", kMadBytes, kSmpDirectedFields};
const HeaderTable kSmpLidRoutedTable = {"SMP LID routed", kMadBytes - kMadHeaderBytes, kSmpLidRoutedFields};

const char* mad_class_name(std::uint64_t mgmt_class) { return find_text(kClasses, mgmt_class); }
const char* mad_method_name(std::uint64_t method) { return find_text(kMethods, method); }

const char* mad_attribute_name(std::uint8_t mgmt_class, std::uint16_t attribute_id) {
    if (mgmt_class == kMadClassSubnetDirected) {
        mgmt_class = kMadClassSubnetLidRouted;  // the same attributes, routed otherwise
    }
    for (const Attribute& attribute : kAttributes) {
        if (attribute.attribute_id == attribute_id &&
            (attribute.mgmt_class == kAnyClass || attribute.mgmt_class == mgmt_class)) {
            return attribute.name;
        }
    }
    return nullptr;
}

}  // namespace urnic::wire
