// Events as JSON, and [[fault]] tables.
#include "daemon/control/fault_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/config/config.h"

namespace urnic::daemon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<fault::Rule> good(const std::string& text) {
    auto result = parse_faults(text, "f.json");
    if (const auto* error = std::get_if<FaultError>(&result)) {
        ADD_FAILURE() << error->message;
        return {};
    }
    return std::get<std::vector<fault::Rule>>(result);
}

std::string bad(const std::string& text) {
    const auto result = parse_faults(text, "f.json");
    const auto* error = std::get_if<FaultError>(&result);
    return error == nullptr ? "" : error->message;
}

TEST(FaultJson, EverythingSet) {
    const auto rules =
        good(R"([{"type": "reorder", "device": "urnic1", "direction": "both", "qpn": 17, "psn": 4,
        "opcode": "RC SEND Only", "iter": 2, "probability": 0.5, "seed": 9, "count": 3, "delay-us": 50,
        "packets": 7}])");
    ASSERT_EQ(rules.size(), 1U);
    const fault::Rule& rule = rules[0];
    EXPECT_EQ(rule.action, fault::Action::kReorder);
    EXPECT_EQ(rule.device, "urnic1");
    EXPECT_EQ(rule.direction, fault::Direction::kBoth);
    EXPECT_EQ(rule.qpn, 17U);
    EXPECT_EQ(rule.psn, 4U);
    EXPECT_EQ(rule.opcode, 4U);
    EXPECT_EQ(rule.iter, 2U);
    EXPECT_EQ(rule.probability, 0.5);
    EXPECT_EQ(rule.seed, 9U);
    EXPECT_EQ(rule.count, 3U);
    EXPECT_EQ(rule.delay_ns, 50'000U);
    EXPECT_EQ(rule.packets, 7U);
}

TEST(FaultJson, TheListMayLieWhereTestersPutIt) {
    const std::string events = R"([{"qpn": 2, "psn": 3, "type": "drop", "iter": 1}, {"type": "ecn"}])";
    for (const std::string& text :
         {events, R"({"data-pkt-events": )" + events + "}",
          R"({"switch": {}, "traffic": {"mtu": 1024, "data-pkt-events": )" + events + "}}"}) {
        EXPECT_EQ(good(text).size(), 2U) << text;
    }
    EXPECT_TRUE(good("[]").empty());
}

TEST(FaultJson, MistakesAreNamedWithTheirPlace) {
    EXPECT_THAT(bad("[{\"type\": \"drop\"},\n {\"type\" \"ecn\"}]"),
                StartsWith("f.json:2:14: not valid JSON: "));
    EXPECT_THAT(bad(""), StartsWith("f.json:1:1: not valid JSON: "));
    EXPECT_EQ(bad(R"([{"type": "drop"}, {"type": "drop", "psn": "x"}])"),
              "f.json: event 2: 'psn' must be a whole number from 0 to 16777215");
    EXPECT_THAT(bad(R"([{"type": "drop", "psm": 1}])"),
                HasSubstr("event 1: unknown key 'psm'; allowed: type,"));
    EXPECT_EQ(bad(R"([{"psn": 1}])"), R"(f.json: event 1: has no 'type', for example "type": "drop")");
    EXPECT_THAT(bad(R"([{"type": "explode"}])"), HasSubstr("'type' must be \"drop\", \"corrupt\""));
    EXPECT_THAT(bad(R"([{"type": "drop", "seed": 18446744073709551615}])"), HasSubstr("'seed' is too large"));
    EXPECT_THAT(bad(R"([{"type": "drop", "psn": null}])"), HasSubstr("'psn' must be a number or a string"));
    EXPECT_THAT(bad("[3]"), HasSubstr("event 1: must be an object"));
    EXPECT_THAT(bad("3"), HasSubstr("must be a list of events"));
    EXPECT_THAT(bad(R"({"events": []})"), HasSubstr("unknown key 'events'; allowed: data-pkt-events"));
    EXPECT_THAT(bad(R"({"traffic": {"mtu": 1}})"), HasSubstr("must be a list of events"));
    EXPECT_THAT(bad(R"([{"type": "delay"}])"), HasSubstr("event 1: type \"delay\" needs 'delay-us'"));
    EXPECT_THAT(bad("[\"\xff\"]"), StartsWith("f.json:1:"));
    std::string many = "[";
    for (std::size_t i = 0; i <= kMaxFaults; ++i) {
        many += std::string(i == 0 ? "" : ",") + R"({"type": "ecn"})";
    }
    EXPECT_THAT(bad(many + "]"), HasSubstr("has 257 events; at most 256"));
}

TEST(FaultJson, WhatIsListedCanBeLoadedAgain) {
    const std::string text = R"([{"type": "drop", "device": "urnic0", "direction": "rx", "qpn": 5, "psn": 6,
        "opcode": "RC WRITE Only", "iter": 2, "probability": 0.25, "seed": 12, "count": 9},
        {"type": "corrupt", "direction": "tx", "seed": 3, "offset": "payload"},
        {"type": "corrupt", "direction": "tx", "opcode": 255, "seed": 3, "offset": 40},
        {"type": "delay", "direction": "both", "delay-us": 12},
        {"type": "reorder", "direction": "tx", "delay-us": 12, "packets": 3}])";
    std::vector<std::shared_ptr<fault::ActiveRule>> active;
    for (const fault::Rule& rule : good(text)) {
        active.push_back(std::make_shared<fault::ActiveRule>(rule, 7, rule.seed.value_or(0)));
    }
    active[0]->seen = 3;
    active[0]->hits = 2;
    active[0]->missed = 1;
    auto listed = nlohmann::json::parse(faults_json(active))["faults"];
    EXPECT_EQ(listed[0]["id"], 7);
    EXPECT_EQ(listed[0]["seen"], 3);
    EXPECT_EQ(listed[0]["hits"], 2);
    EXPECT_EQ(listed[0]["missed"], 1);
    for (auto& event : listed) {
        for (const char* key : {"id", "seen", "hits", "missed"}) {
            event.erase(key);
        }
    }
    EXPECT_EQ(listed, nlohmann::json::parse(text));
}

TEST(FaultTables, AreReadWithTheirPlaceInTheFile) {
    const std::string rnic = "[[rnic]]\nname = \"urnic0\"\nport = \"fabric\"\nfabric = \"lab\"\n";
    const auto read = [&](const std::string& table) {
        return parse_config("[[fault]]\n" + table + "\n" + rnic, "u.toml");
    };
    const auto result = read("type = \"drop\"\nprobability = 0.01\ndevice = \"urnic0\"");
    ASSERT_TRUE(std::holds_alternative<Config>(result));
    ASSERT_EQ(std::get<Config>(result).faults.size(), 1U);
    EXPECT_EQ(std::get<Config>(result).faults[0].probability, 0.01);
    const auto message = [&](const std::string& table) {
        const auto wrong = read(table);
        const auto* error = std::get_if<ConfigError>(&wrong);
        return error == nullptr ? "" : error->message;
    };
    EXPECT_THAT(message("type = \"drop\"\npsn = -1"), StartsWith("u.toml:3:7: 'psn' must be"));
    EXPECT_THAT(message("type = \"drop\"\npsm = 1"), HasSubstr("unknown key 'psm'; allowed: type"));
    EXPECT_THAT(message("type = \"drop\"\npsn = [1]"),
                HasSubstr("'psn' in [[fault]] must be a number or a string"));
    EXPECT_THAT(message("psn = 1"), HasSubstr("has no 'type'"));
    EXPECT_THAT(message("type = \"delay\""), HasSubstr("needs 'delay-us'"));
    EXPECT_THAT(message("type = \"drop\"\ndevice = \"urnic7\""),
                HasSubstr("\"urnic7\"; it must be the name"));
}

}  // namespace
}  // namespace urnic::daemon
