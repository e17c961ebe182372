// Old names are read with one warning, and refused beside the present ones.
#include "toml/renamed_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "toml/table_reader.h"

namespace urnic {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr RenamedKey kRenamed[] = {{"", "wire", "network"}, {"a.b", "old", "new"}};

TEST(ReplaceOldKeys, TheValueStandsUnderThePresentName) {
    toml::table document = parse_toml("[[wire]]\nx = 1\n[[a]]\n[a.b]\nold = 2\n[[a]]\nb.old = 3\n");
    EXPECT_THAT(
        replace_old_keys(document, "f", kRenamed),
        ElementsAre("f:1:3: [[wire]] is called [[network]] now; the next release does not read the "
                    "old name",
                    "f:5:1: 'old' in [a.b] is called 'new' now; the next release does not read the old "
                    "name"))
        << "one of each, at the first place";
    EXPECT_EQ(document["network"][0]["x"].value<int>(), 1);
    EXPECT_EQ(document["a"][0]["b"]["new"].value<int>(), 2);
    EXPECT_EQ(document["a"][1]["b"]["new"].value<int>(), 3);
    EXPECT_FALSE(document.contains("wire"));
    EXPECT_EQ(document.find("network")->first.source().begin.line, 1U) << "for what is said of the key";
    EXPECT_EQ(document["a"][0]["b"]["new"].node()->source().begin.line, 5U);
    EXPECT_THAT(replace_old_keys(document, "f", kRenamed), IsEmpty());
}

TEST(ReplaceOldKeys, BothNamesAreRefused) {
    toml::table document = parse_toml("[a.b]\nnew = 1\nold = 1\n");
    try {
        (void)replace_old_keys(document, "f", kRenamed);
        FAIL();
    } catch (const TomlError& error) {
        EXPECT_EQ(message_of(error, "f"),
                  "f:3:1: 'old' in [a.b] is the old name of 'new', which is there as well: give 'new' alone");
    }
}

TEST(ReplaceOldKeys, WhatIsNoTableIsLeftAlone) {
    toml::table document = parse_toml("a = [1, {b = 7}, {b = [[{old = 1}]]}]\n");
    EXPECT_THAT(replace_old_keys(document, "f", kRenamed), testing::SizeIs(1));
    EXPECT_EQ(document["a"][1]["b"].value<int>(), 7);
}

}  // namespace
}  // namespace urnic
