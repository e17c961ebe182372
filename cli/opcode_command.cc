#include "cli/opcode_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cli/launch_error.h"
#include "rnic/wire/opcodes.h"

namespace urnic::cli {

namespace {

constexpr const char* kOpcodeFooter =
    R"(A number is decimal, or hexadecimal with 0x. A name is the packet's, or a part of it, in any case.
Clauses are those of the InfiniBand specification (IBTA), volume 1; all opcodes stand in its table 38.

Examples:
  urnic opcode 0x0a
  urnic opcode ud send
  urnic opcode               the whole table)";

struct ExtendedHeader {
    std::uint16_t mask;
    const char* name;
    unsigned bytes;
};
/// In wire order.
constexpr std::array<ExtendedHeader, 11> kExtendedHeaders = {{{wire::kHasRdeth, "RDETH", 4},
                                                              {wire::kHasDeth, "DETH", 8},
                                                              {wire::kHasXrceth, "XRCETH", 4},
                                                              {wire::kHasFeth, "FETH", 4},
                                                              {wire::kHasReth, "RETH", 16},
                                                              {wire::kHasAtomicEth, "AtomicETH", 28},
                                                              {wire::kHasAeth, "AETH", 4},
                                                              {wire::kHasAtomicAck, "AtomicAckETH", 8},
                                                              {wire::kHasImm, "ImmDt", 4},
                                                              {wire::kHasIeth, "IETH", 4},
                                                              {wire::kHasCnpReserved, "reserved", 16}}};

struct TransportService {
    const char* name;
    const char* clause;
};
/// By the top three bits of the opcode.
constexpr std::array<TransportService, 8> kServices = {{{"RC, reliable connection", "9.7"},
                                                        {"UC, unreliable connection", "9.8.2"},
                                                        {"RD, reliable datagram", "9.7"},
                                                        {"UD, unreliable datagram", "9.8.3"},
                                                        {"CNP, congestion notification", "annex A17"},
                                                        {"XRC, extended reliable connection", "annex A14"},
                                                        {"reserved", nullptr},
                                                        {"manufacturer's own", nullptr}}};

std::string lower(std::string_view text) {
    std::string made(text);
    std::transform(made.begin(), made.end(), made.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return made;
}

std::string headers_of(const wire::OpcodeInfo& info) {
    std::string text = "BTH 12";
    for (const ExtendedHeader& header : kExtendedHeaders) {
        if ((info.headers & header.mask) != 0) {
            text += fmt::format(", {} {}", header.name, header.bytes);
        }
    }
    return text + ((info.flags & wire::kHasPayload) != 0 ? ", payload" : "");
}

std::string clause_of(unsigned opcode, const wire::OpcodeInfo& info) {
    std::string clause = kServices[opcode >> 5U].clause;
    if ((info.flags & wire::kIsAtomic) != 0) {
        clause += ", 9.4.5";
    }
    if ((info.flags & (wire::kIsFlush | wire::kIsAtomicWrite)) != 0) {
        clause += ", annex A19";
    }
    return clause;
}

std::string describe_opcode(unsigned opcode) {
    const wire::OpcodeInfo& info = wire::opcode_info(static_cast<std::uint8_t>(opcode));
    std::string text = fmt::format("opcode     0x{:02x} ({})\n", opcode, opcode);
    const bool is_valid = (info.flags & wire::kValid) != 0;
    text += fmt::format("name       {}\n", is_valid ? info.name : "reserved: no packet has it");
    text += fmt::format("transport  {}\n", kServices[opcode >> 5U].name);
    if (is_valid) {
        text += fmt::format("headers    {}\n", headers_of(info));
        text += fmt::format("clause     table 38, {}\n", clause_of(opcode, info));
    }
    return text;
}

std::string table_of(const std::vector<unsigned>& opcodes) {
    std::string text =
        fmt::format("{:<6}  {:<29}  {:<21}  {}\n", "opcode", "name", "clause", "headers and their bytes");
    for (const unsigned opcode : opcodes) {
        const wire::OpcodeInfo& info = wire::opcode_info(static_cast<std::uint8_t>(opcode));
        text += fmt::format("0x{:02x}    {:<29}  {:<21}  {}\n", opcode, info.name, clause_of(opcode, info),
                            headers_of(info));
    }
    return text;
}

/// None: it is no number.
std::optional<unsigned long> number_of(std::string_view word) {
    const bool is_hex = word.starts_with("0x") || word.starts_with("0X");
    const std::string_view digits = is_hex ? word.substr(2) : word;
    unsigned long number = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, is_hex ? 16 : 10);
    const bool is_whole = end == digits.data() + digits.size() && !digits.empty();
    if (is_whole && error == std::errc::result_out_of_range) {
        return ~0UL;
    }
    return is_whole && error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string opcode_text(const std::vector<std::string>& words) {
    if (words.size() == 1) {
        if (const std::optional<unsigned long> number = number_of(words.front())) {
            if (*number > 0xff) {
                throw LaunchError(words.front() + " is no opcode: an opcode has 8 bits, 0x00 to 0xff");
            }
            return describe_opcode(static_cast<unsigned>(*number));
        }
    }
    std::string wanted;
    for (const std::string& word : words) {
        wanted += (wanted.empty() ? "" : " ") + lower(word);
    }
    std::vector<unsigned> found;
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        const wire::OpcodeInfo& info = wire::opcode_info(static_cast<std::uint8_t>(opcode));
        if ((info.flags & wire::kValid) == 0) {
            continue;
        }
        const std::string name = lower(info.name);
        if (name == wanted) {
            return describe_opcode(opcode);
        }
        if (name.find(wanted) != std::string::npos) {
            found.push_back(opcode);
        }
    }
    if (found.empty()) {
        throw LaunchError("no packet is called \"" + wanted +
                          "\": urnic opcode without a name prints all of them");
    }
    return found.size() == 1 ? describe_opcode(found.front()) : table_of(found);
}

OpcodeCommand::OpcodeCommand(const Command& app) {
    opcode_ = app.command("opcode", "Prints what a BTH opcode is: its name, transport, headers and clause.");
    opcode_.footer(kOpcodeFooter);
    opcode_.option("OPCODE", words_, "a number, or a name or a part of it; left out: the whole table");
}

void OpcodeCommand::run() const { fmt::print("{}", opcode_text(words_)); }

}  // namespace urnic::cli
