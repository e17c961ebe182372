// Values by their kind and range, and what is said of those that are wrong.
#include "toml/table_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace urnic {
namespace {

using testing::ElementsAre;

using Read = std::function<void(TableReader&)>;

/// What is said of a file that is read so; "": nothing.
std::string said_of(const std::string& text, const Read& read) {
    try {
        const toml::table document = parse_toml(text);
        TableReader reader(document);
        read(reader);
        reader.finish();
        return "";
    } catch (const TomlError& error) {
        return message_of(error, "f");
    }
}

TEST(TableReader, ValuesAreReadAndAbsentOnesStay) {
    bool flag = false;
    std::optional<bool> maybe;
    std::string text = "before";
    std::uint8_t byte = 7;
    std::optional<std::uint32_t> id;
    double number = 0;
    std::uint64_t ns = 0;
    enum class Color : std::uint8_t { kRed, kGreen } color = Color::kRed;
    bool is_second = false;
    std::array<std::uint8_t, 3> three{9, 9, 9};
    std::optional<std::array<std::uint8_t, 3>> maybe_three;
    std::optional<std::array<std::pair<std::uint8_t, std::uint8_t>, 2>> pairs;
    std::vector<std::string> texts;
    std::vector<bool> present;
    const Read read = [&](TableReader& reader) {
        present = {reader.read_flag("flag", flag),
                   reader.read_flag("maybe", maybe),
                   reader.read_text("text", text),
                   reader.read_whole("byte", byte, 0, 255),
                   reader.read_whole("id", id, 0, 0xffff'ffff),
                   reader.read_number("number", number, 0, 1),
                   reader.read_scaled("us", ns, 1e3, 0, 10),
                   reader.read_choice("color", color, {"red", "green"}),
                   reader.read_choice("second", is_second, {"one", "two"}),
                   reader.read_wholes("three", three, 15, "of the first one first"),
                   reader.read_wholes("maybe_three", maybe_three, 15, "of the first one first"),
                   reader.read_pairs("pairs", pairs, 5, 9, "two things"),
                   reader.read_texts("texts", texts, 0, "[]")};
    };
    EXPECT_EQ(said_of("", read), "");
    EXPECT_THAT(present, testing::Each(false));
    EXPECT_EQ(text, "before");
    EXPECT_EQ(byte, 7);
    EXPECT_FALSE(maybe || id || maybe_three || pairs);
    EXPECT_EQ(three[2], 9);

    EXPECT_EQ(said_of("flag = true\nmaybe = false\ntext = \"t\"\nbyte = 255\nid = 0xffffffff\nnumber = 1\n"
                      "us = 2.0006\ncolor = \"green\"\nsecond = \"two\"\nthree = [1, 2, 15]\n"
                      "maybe_three = [0, 0, 1]\npairs = [[5, 9]]\ntexts = [\"a\", \"b\"]\n",
                      read),
              "");
    EXPECT_THAT(present, testing::Each(true));
    EXPECT_TRUE(flag);
    EXPECT_EQ(maybe, false);
    EXPECT_EQ(text, "t");
    EXPECT_EQ(byte, 255);
    EXPECT_EQ(id, 0xffff'ffffU);
    EXPECT_EQ(number, 1.0);
    EXPECT_EQ(ns, 2001U);
    EXPECT_EQ(color, Color::kGreen);
    EXPECT_TRUE(is_second);
    EXPECT_THAT(three, ElementsAre(1, 2, 15));
    EXPECT_THAT(maybe_three.value(), ElementsAre(0, 0, 1));
    EXPECT_THAT(pairs.value(), ElementsAre(std::pair(5, 9), std::pair(0, 0)));
    EXPECT_THAT(texts, ElementsAre("a", "b"));
}

struct WrongValue {
    const char* value;
    const char* said;
};

/// Each is refused as the value of `k`, at its place.
void expect_refused(const Read& read, std::initializer_list<WrongValue> values) {
    for (const WrongValue& each : values) {
        const std::string said = said_of(std::string("\nk = ") + each.value, read);
        EXPECT_THAT(said, testing::EndsWith(std::string(": 'k' in the file ") + each.said)) << each.value;
        EXPECT_THAT(said, testing::StartsWith("f:2:")) << each.value;
    }
}

TEST(TableReader, WrongValuesAreNamedWithTheirPlaceAndWhatIsAllowed) {
    const char* const kFlag = "must be true or false";
    expect_refused([](TableReader& reader) { (void)reader.find_flag("k"); },
                   {{"1", kFlag}, {"\"true\"", kFlag}});
    const char* const kText = "must be a string that is not empty";
    expect_refused([](TableReader& reader) { (void)reader.find_text("k"); },
                   {{"7", kText}, {"\"\"", kText}, {R"("a\u0000b")", "must not contain a NUL character"}});
    const char* const kWhole = "must be a whole number from 1 to 7";
    expect_refused([](TableReader& reader) { (void)reader.find_whole("k", 1, 7); },
                   {{"0", kWhole}, {"8", kWhole}, {"2.0", kWhole}, {"\"2\"", kWhole}, {"true", kWhole}});
    const char* const kNumber = "must be a number from 0.5 to 1e+06";
    expect_refused([](TableReader& reader) { (void)reader.find_number("k", 0.5, 1e6); },
                   {{"0.4", kNumber},
                    {"1e7", kNumber},
                    {"nan", kNumber},
                    {"inf", kNumber},
                    {"true", kNumber},
                    {"\"1\"", kNumber}});
    expect_refused(
        [](TableReader& reader) {
            int value = 0;
            reader.read_choice("k", value, {"a", "b", "c"}, ": in this order");
        },
        {{"\"d\"", "must be \"a\", \"b\" or \"c\", not \"d\": in this order"},
         {"1", "must be \"a\", \"b\" or \"c\": in this order"}});
    const char* const kTable = "must be a table: [k]";
    expect_refused([](TableReader& reader) { reader.read_table("k", [](TableReader&) {}); },
                   {{"1", kTable}, {"[{}]", kTable}});
    const char* const kTables = "must be tables: [[k]] (double brackets)";
    expect_refused([](TableReader& reader) { reader.read_tables("k", [](TableReader&) {}); },
                   {{"{}", kTables}, {"[1]", kTables}});
}

TEST(TableReader, WrongListsAreNamedWithTheirPlaceAndWhatIsAllowed) {
    const char* const kWholes = "must be a list of 2 whole numbers from 0 to 9, of the left first";
    expect_refused(
        [](TableReader& reader) {
            std::array<std::uint8_t, 2> values{};
            reader.read_wholes("k", values, 9, "of the left first");
        },
        {{"1", kWholes},
         {"[1]", kWholes},
         {"[1, 2, 3]", kWholes},
         {"[1, -1]", kWholes},
         {"[10, 1]", kWholes},
         {"[1, 2.0]", kWholes}});
    const char* const kPairs = "must be a list of at most 2 pairs of a step and a height";
    expect_refused(
        [](TableReader& reader) {
            std::optional<std::array<std::pair<std::uint8_t, std::uint8_t>, 2>> values;
            reader.read_pairs("k", values, 4, 9, "a step and a height");
        },
        {{"[1, 2]", kPairs},
         {"[[1]]", kPairs},
         {"[[1, 2, 3]]", kPairs},
         {"[[5, 1]]", kPairs},
         {"[[1, 10]]", kPairs},
         {"[[1, -1]]", kPairs},
         {"[[1, 1], [1, 1], [1, 1]]", kPairs}});
    const char* const kTexts = "must be a list of strings, for example [\"x\"]";
    const char* const kEntry = "has an entry that must be a string that is not empty";
    expect_refused(
        [](TableReader& reader) {
            std::vector<std::string> values;
            reader.read_texts("k", values, 1, "[\"x\"]");
        },
        {{"\"x\"", kTexts}, {"[]", kTexts}, {"[\"x\", 1]", kEntry}, {"[\"x\", \"\"]", kEntry}});
}

TEST(TableReader, MistakesInAListLieAtTheEntry) {
    const Read wholes = [](TableReader& reader) {
        std::array<std::uint8_t, 2> values{};
        reader.read_wholes("k", values, 9, "");
    };
    EXPECT_THAT(said_of("k = [\n1,\n10]", wholes), testing::StartsWith("f:3:1: "));
}

TEST(TableReader, UnknownKeysAreRefusedAndTheNearestIsNamed) {
    const Read read = [](TableReader& reader) {
        (void)reader.find_text("name");
        (void)reader.find_text("mtu");
        reader.read_table("limits", [](TableReader& limits) { (void)limits.find_whole("max_qps", 1, 9); });
        reader.read_tables("rnic", [](TableReader& rnic) {
            rnic.read_table("pfc", [](TableReader& pfc) { (void)pfc.find_text("rx"); });
            rnic.read_tables("vlan", [](TableReader& vlan) { (void)vlan.find_whole("id", 1, 9); });
        });
    };
    const std::string allowed = "; allowed: name, mtu, [limits], [[rnic]]";
    for (const auto& [key, meant] : {std::pair("nmae", " (did you mean name?)"),
                                     {"ame", " (did you mean name?)"},
                                     {"names", " (did you mean name?)"},
                                     {"limit", " (did you mean [limits]?)"},
                                     {"rnics", " (did you mean [[rnic]]?)"},
                                     {"note", ""},
                                     {"speed", ""}}) {
        EXPECT_EQ(said_of(std::string("\n") + key + " = 1", read),
                  std::string("f:2:1: unknown key '").append(key).append("' in the file") + meant + allowed);
    }
    EXPECT_EQ(said_of("[limits]\nmax_qp = 1", read),
              "f:2:1: unknown key 'max_qp' in [limits] (did you mean max_qps?); allowed: max_qps");
    EXPECT_EQ(said_of("[[rnic]]\n[[rnic]]\n[rnic.pfc]\ntx = \"1\"", read),
              "f:4:1: unknown key 'tx' in [rnic.pfc] (did you mean rx?); allowed: rx");
    EXPECT_EQ(said_of("[[rnic]]\n[[rnic.vlan]]\nnumber = 1", read),
              "f:3:1: unknown key 'number' in [[rnic.vlan]]; allowed: id");
    EXPECT_EQ(said_of("[[rnic]]\npfc = 1", read),
              "f:2:7: 'pfc' in [[rnic]] must be a table: [rnic.pfc], behind its [[rnic]]");
}

TEST(TableReader, OneKeyIsNamedAsTheNearest) {
    const std::string long_key(70, 'k');
    const Read read = [&long_key](TableReader& reader) {
        (void)reader.find_text("ab1");
        (void)reader.find_text("ab2");
        (void)reader.find_text(long_key);
    };
    EXPECT_THAT(said_of("ab3 = 1", read), testing::HasSubstr(" (did you mean ab1?)"));
    EXPECT_THAT(said_of("ab = 1", read), testing::HasSubstr(" (did you mean ab1?)"));
    EXPECT_THAT(said_of(long_key + "k = 1", read), testing::Not(testing::HasSubstr("did you mean")))
        << "of such a long one no distance is worked out";
}

TEST(TableReader, AbsentTablesAreReadAsEmptyOnes) {
    int tables = 0;
    EXPECT_EQ(said_of("",
                      [&tables](TableReader& reader) {
                          reader.read_table("t", [&tables](TableReader& table) {
                              ++tables;
                              EXPECT_FALSE(table.has("k"));
                              EXPECT_EQ(table.find("k"), nullptr);
                          });
                          reader.read_tables("u", [](TableReader&) { ADD_FAILURE(); });
                      }),
              "");
    EXPECT_EQ(tables, 1);
    EXPECT_EQ(said_of("",
                      [](TableReader& reader) {
                          reader.read_table("t",
                                            [](TableReader& table) { table.fail("k", "must be there"); });
                      }),
              "f: 'k' in [t] must be there")
        << "it has no place";
}

TEST(TableReader, WhatIsNoTomlIsSaidWithItsPlace) {
    EXPECT_THAT(said_of("a = 1\nb = \n", [](TableReader&) {}), testing::StartsWith("f:2:"));
    EXPECT_THAT(said_of("a = 1\nb = \n", [](TableReader&) {}), testing::HasSubstr(": not valid TOML: "));
}

}  // namespace
}  // namespace urnic
