#include "cli/opcode_command.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/launch_error.h"
#include "rnic/wire/opcodes.h"

namespace urnic::cli::test {
namespace {

std::string line_of(const std::string& text, const std::string& name) {
    const std::size_t at = text.find(name + " ");
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

TEST(OpcodeCommandText, ByNumber) {
    EXPECT_EQ(opcode_text({"0x0a"}),
              "opcode     0x0a (10)\n"
              "name       RC WRITE Only\n"
              "transport  RC, reliable connection\n"
              "headers    BTH 12, RETH 16, payload\n"
              "clause     table 38, 9.7\n");
    EXPECT_EQ(opcode_text({"10"}), opcode_text({"0x0A"}));
    EXPECT_EQ(line_of(opcode_text({"0x64"}), "headers"), "headers    BTH 12, DETH 8, payload");
    EXPECT_EQ(line_of(opcode_text({"0xbc"}), "clause"), "clause     table 38, annex A14, annex A19");
    EXPECT_EQ(line_of(opcode_text({"0x81"}), "headers"), "headers    BTH 12, reserved 16");
    EXPECT_NE(opcode_text({"0x15"}).find("reserved"), std::string::npos);
    EXPECT_EQ(line_of(opcode_text({"0xff"}), "transport"), "transport  manufacturer's own");
}

TEST(OpcodeCommandText, ByName) {
    EXPECT_EQ(opcode_text({"RC", "send", "ONLY"}), opcode_text({"0x04"}));
    EXPECT_EQ(opcode_text({"cnp"}), opcode_text({"0x81"}));
    EXPECT_EQ(opcode_text({"rd resync"}), opcode_text({"0x55"}));
    const std::string several = opcode_text({"ud"});
    EXPECT_NE(several.find("UD SEND Only"), std::string::npos);
    EXPECT_NE(several.find("UD SEND Only with Immediate"), std::string::npos);
    EXPECT_EQ(std::count(several.begin(), several.end(), '\n'), 3);
}

TEST(OpcodeCommandText, WholeTableHasAllRowsAndTheirBytes) {
    const std::string table = opcode_text({});
    std::ptrdiff_t rows = 0;
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        const wire::OpcodeInfo& info = wire::opcode_info(static_cast<std::uint8_t>(opcode));
        if ((info.flags & wire::kValid) == 0) {
            continue;
        }
        ++rows;
        const std::string headers = line_of(opcode_text({std::to_string(opcode)}), "headers");
        unsigned bytes = 0;
        for (std::size_t at = 0; at < headers.size(); ++at) {
            if (headers[at] == ' ' && at + 1 < headers.size() && std::isdigit(headers[at + 1]) != 0) {
                bytes += static_cast<unsigned>(std::stoul(headers.substr(at + 1)));
            }
        }
        EXPECT_EQ(bytes, info.header_bytes) << info.name;
    }
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), rows + 1);
}

TEST(OpcodeCommandText, WhatIsNoneIsSaid) {
    for (const char* word :
         {"256", "0x100", "99999999999999999999999", "0x", "0xg", "-1", "send never", "RC SEND  Only"}) {
        EXPECT_THROW((void)opcode_text({word}), LaunchError) << word;
    }
}

}  // namespace
}  // namespace urnic::cli::test
