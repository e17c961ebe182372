#include "rnic/wire/opcodes.h"

#include <array>

#include "rnic/wire/layout.h"

namespace urnic::wire {

namespace {

struct Row {
    const char* name;
    std::uint8_t opcode;
    std::uint16_t flags;  // kValid is added to all
    std::uint16_t headers;
};

// IBA table 38 and, for FLUSH and ATOMIC WRITE, annex A19.
// clang-format off
constexpr Row kRows[] = {
    {"RC SEND First", 0x00, kIsRequest | kIsSend | kStarts | kHasPayload, 0},
    {"RC SEND Middle", 0x01, kIsRequest | kIsSend | kHasPayload, 0},
    {"RC SEND Last", 0x02, kIsRequest | kIsSend | kEnds | kHasPayload, 0},
    {"RC SEND Last with Immediate", 0x03, kIsRequest | kIsSend | kEnds | kHasPayload, kHasImm},
    {"RC SEND Only", 0x04, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, 0},
    {"RC SEND Only with Immediate", 0x05, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasImm},
    {"RC WRITE First", 0x06, kIsRequest | kIsWrite | kStarts | kHasPayload, kHasReth},
    {"RC WRITE Middle", 0x07, kIsRequest | kIsWrite | kHasPayload, 0},
    {"RC WRITE Last", 0x08, kIsRequest | kIsWrite | kEnds | kHasPayload, 0},
    {"RC WRITE Last with Immediate", 0x09, kIsRequest | kIsWrite | kEnds | kHasPayload, kHasImm},
    {"RC WRITE Only", 0x0a, kIsRequest | kIsWrite | kStarts | kEnds | kHasPayload, kHasReth},
    {"RC WRITE Only with Immediate", 0x0b, kIsRequest | kIsWrite | kStarts | kEnds | kHasPayload, kHasReth | kHasImm},
    {"RC READ Request", 0x0c, kIsRequest | kIsRead | kStarts | kEnds, kHasReth},
    {"RC READ Response First", 0x0d, kIsReadResponse | kStarts | kHasPayload, kHasAeth},
    {"RC READ Response Middle", 0x0e, kIsReadResponse | kHasPayload, 0},
    {"RC READ Response Last", 0x0f, kIsReadResponse | kEnds | kHasPayload, kHasAeth},
    {"RC READ Response Only", 0x10, kIsReadResponse | kStarts | kEnds | kHasPayload, kHasAeth},
    {"RC Acknowledge", 0x11, kIsAck | kStarts | kEnds, kHasAeth},
    {"RC ATOMIC Acknowledge", 0x12, kIsAck | kStarts | kEnds, kHasAeth | kHasAtomicAck},
    {"RC CmpSwap", 0x13, kIsRequest | kIsAtomic | kStarts | kEnds, kHasAtomicEth},
    {"RC FetchAdd", 0x14, kIsRequest | kIsAtomic | kStarts | kEnds, kHasAtomicEth},
    {"RC SEND Last with Invalidate", 0x16, kIsRequest | kIsSend | kEnds | kHasPayload, kHasIeth},
    {"RC SEND Only with Invalidate", 0x17, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasIeth},
    {"RC FLUSH", 0x1c, kIsRequest | kIsFlush | kStarts | kEnds, kHasFeth | kHasReth},
    {"RC ATOMIC WRITE", 0x1d, kIsRequest | kIsAtomicWrite | kStarts | kEnds | kHasPayload, kHasReth},
    {"UC SEND First", 0x20, kIsRequest | kIsSend | kStarts | kHasPayload, 0},
    {"UC SEND Middle", 0x21, kIsRequest | kIsSend | kHasPayload, 0},
    {"UC SEND Last", 0x22, kIsRequest | kIsSend | kEnds | kHasPayload, 0},
    {"UC SEND Last with Immediate", 0x23, kIsRequest | kIsSend | kEnds | kHasPayload, kHasImm},
    {"UC SEND Only", 0x24, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, 0},
    {"UC SEND Only with Immediate", 0x25, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasImm},
    {"UC WRITE First", 0x26, kIsRequest | kIsWrite | kStarts | kHasPayload, kHasReth},
    {"UC WRITE Middle", 0x27, kIsRequest | kIsWrite | kHasPayload, 0},
    {"UC WRITE Last", 0x28, kIsRequest | kIsWrite | kEnds | kHasPayload, 0},
    {"UC WRITE Last with Immediate", 0x29, kIsRequest | kIsWrite | kEnds | kHasPayload, kHasImm},
    {"UC WRITE Only", 0x2a, kIsRequest | kIsWrite | kStarts | kEnds | kHasPayload, kHasReth},
    {"UC WRITE Only with Immediate", 0x2b, kIsRequest | kIsWrite | kStarts | kEnds | kHasPayload, kHasReth | kHasImm},
    {"RD SEND First", 0x40, kIsRequest | kIsSend | kStarts | kHasPayload, kHasRdeth | kHasDeth},
    {"RD SEND Middle", 0x41, kIsRequest | kIsSend | kHasPayload, kHasRdeth | kHasDeth},
    {"RD SEND Last", 0x42, kIsRequest | kIsSend | kEnds | kHasPayload, kHasRdeth | kHasDeth},
    {"RD SEND Last with Immediate", 0x43, kIsRequest | kIsSend | kEnds | kHasPayload, kHasRdeth | kHasDeth | kHasImm},
    {"RD SEND Only", 0x44, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasRdeth | kHasDeth},
    {"RD SEND Only with Immediate", 0x45, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasRdeth | kHasDeth | kHasImm},
    {"RD WRITE First", 0x46, kIsRequest | kIsWrite | kStarts | kHasPayload, kHasRdeth | kHasDeth | kHasReth},
    {"RD WRITE Middle", 0x47, kIsRequest | kIsWrite | kHasPayload, kHasRdeth | kHasDeth},
    {"RD WRITE Last", 0x48, kIsRequest | kIsWrite | kEnds | kHasPayload, kHasRdeth | kHasDeth},
    {"RD WRITE Last with Immediate", 0x49, kIsRequest | kIsWrite | kEnds | kHasPayload, kHasRdeth | kHasDeth | kHasImm},
    {"RD WRITE Only", 0x4a, kIsRequest | kIsWrite | kStarts | kEnds | kHasPayload, kHasRdeth | kHasDeth | kHasReth},
    {"RD WRITE Only with Immediate", 0x4b, kIsRequest | kIsWrite | kStarts | kEnds | kHasPayload, kHasRdeth | kHasDeth | kHasReth | kHasImm},
    {"RD READ Request", 0x4c, kIsRequest | kIsRead | kStarts | kEnds, kHasRdeth | kHasDeth | kHasReth},
    {"RD READ Response First", 0x4d, kIsReadResponse | kStarts | kHasPayload, kHasRdeth | kHasAeth},
    {"RD READ Response Middle", 0x4e, kIsReadResponse | kHasPayload, kHasRdeth},
    {"RD READ Response Last", 0x4f, kIsReadResponse | kEnds | kHasPayload, kHasRdeth | kHasAeth},
    {"RD READ Response Only", 0x50, kIsReadResponse | kStarts | kEnds | kHasPayload, kHasRdeth | kHasAeth},
    {"RD Acknowledge", 0x51, kIsAck | kStarts | kEnds, kHasRdeth | kHasAeth},
    {"RD ATOMIC Acknowledge", 0x52, kIsAck | kStarts | kEnds, kHasRdeth | kHasAeth | kHasAtomicAck},
    {"RD CmpSwap", 0x53, kIsRequest | kIsAtomic | kStarts | kEnds, kHasRdeth | kHasDeth | kHasAtomicEth},
    {"RD FetchAdd", 0x54, kIsRequest | kIsAtomic | kStarts | kEnds, kHasRdeth | kHasDeth | kHasAtomicEth},
    {"RD RESYNC", 0x55, kIsRequest | kStarts | kEnds, kHasRdeth | kHasDeth},
    {"UD SEND Only", 0x64, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasDeth},
    {"UD SEND Only with Immediate", 0x65, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasDeth | kHasImm},
    {"CNP", 0x81, 0, kHasCnpReserved},
    {"XRC SEND First", 0xa0, kIsRequest | kIsSend | kStarts | kHasPayload, kHasXrceth},
    {"XRC SEND Middle", 0xa1, kIsRequest | kIsSend | kHasPayload, kHasXrceth},
    {"XRC SEND Last", 0xa2, kIsRequest | kIsSend | kEnds | kHasPayload, kHasXrceth},
    {"XRC SEND Last with Immediate", 0xa3, kIsRequest | kIsSend | kEnds | kHasPayload, kHasXrceth | kHasImm},
    {"XRC SEND Only", 0xa4, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasXrceth},
    {"XRC SEND Only with Immediate", 0xa5, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasXrceth | kHasImm},
    {"XRC WRITE First", 0xa6, kIsRequest | kIsWrite | kStarts | kHasPayload, kHasXrceth | kHasReth},
    {"XRC WRITE Middle", 0xa7, kIsRequest | kIsWrite | kHasPayload, kHasXrceth},
    {"XRC WRITE Last", 0xa8, kIsRequest | kIsWrite | kEnds | kHasPayload, kHasXrceth},
    {"XRC WRITE Last with Immediate", 0xa9, kIsRequest | kIsWrite | kEnds | kHasPayload, kHasXrceth | kHasImm},
    {"XRC WRITE Only", 0xaa, kIsRequest | kIsWrite | kStarts | kEnds | kHasPayload, kHasXrceth | kHasReth},
    {"XRC WRITE Only with Immediate", 0xab, kIsRequest | kIsWrite | kStarts | kEnds | kHasPayload, kHasXrceth | kHasReth | kHasImm},
    {"XRC READ Request", 0xac, kIsRequest | kIsRead | kStarts | kEnds, kHasXrceth | kHasReth},
    {"XRC READ Response First", 0xad, kIsReadResponse | kStarts | kHasPayload, kHasAeth},
    {"XRC READ Response Middle", 0xae, kIsReadResponse | kHasPayload, 0},
    {"XRC READ Response Last", 0xaf, kIsReadResponse | kEnds | kHasPayload, kHasAeth},
    {"XRC READ Response Only", 0xb0, kIsReadResponse | kStarts | kEnds | kHasPayload, kHasAeth},
    {"XRC Acknowledge", 0xb1, kIsAck | kStarts | kEnds, kHasAeth},
    {"XRC ATOMIC Acknowledge", 0xb2, kIsAck | kStarts | kEnds, kHasAeth | kHasAtomicAck},
    {"XRC CmpSwap", 0xb3, kIsRequest | kIsAtomic | kStarts | kEnds, kHasXrceth | kHasAtomicEth},
    {"XRC FetchAdd", 0xb4, kIsRequest | kIsAtomic | kStarts | kEnds, kHasXrceth | kHasAtomicEth},
    {"XRC SEND Last with Invalidate", 0xb6, kIsRequest | kIsSend | kEnds | kHasPayload, kHasXrceth | kHasIeth},
    {"XRC SEND Only with Invalidate", 0xb7, kIsRequest | kIsSend | kStarts | kEnds | kHasPayload, kHasXrceth | kHasIeth},
    {"XRC FLUSH", 0xbc, kIsRequest | kIsFlush | kStarts | kEnds, kHasXrceth | kHasFeth | kHasReth},
    {"XRC ATOMIC WRITE", 0xbd, kIsRequest | kIsAtomicWrite | kStarts | kEnds | kHasPayload, kHasXrceth | kHasReth},
};
// clang-format on

struct HeaderSize {
    std::uint16_t header;
    std::uint8_t bytes;
};
constexpr HeaderSize kHeaderSizes[] = {
    {kHasRdeth, 4}, {kHasDeth, 8},       {kHasXrceth, 4},       {kHasFeth, 4},
    {kHasReth, 16}, {kHasAtomicEth, 28}, {kHasAeth, 4},         {kHasAtomicAck, 8},
    {kHasImm, 4},   {kHasIeth, 4},       {kHasCnpReserved, 16},
};

constexpr std::array<OpcodeInfo, 256> make_table() {
    std::array<OpcodeInfo, 256> table{};
    for (OpcodeInfo& info : table) {
        info = {"reserved", 0, 0, kBthBytes};
    }
    for (const Row& row : kRows) {
        std::size_t bytes = kBthBytes;
        for (const HeaderSize& size : kHeaderSizes) {
            bytes += (row.headers & size.header) != 0 ? size.bytes : 0U;
        }
        table[row.opcode] = {row.name, static_cast<std::uint16_t>(row.flags | kValid), row.headers,
                             static_cast<std::uint8_t>(bytes)};
    }
    return table;
}

}  // namespace

constexpr std::array<OpcodeInfo, 256> kOpcodes = make_table();

}  // namespace urnic::wire
