// What is written about runs, and read again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "conform/pages.h"
#include "conform/record.h"
#include "conform/report.h"
#include "conform/rows.h"
#include "os/setup_error.h"

namespace urnic::conform {
namespace {

class Reports : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() / ("urnic-reports-" + std::to_string(::getpid()));
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    static CaseRecord record(const std::string& name, VerdictKind verdict, const std::string& reason = "") {
        CaseRecord record;
        record.suite = "Suite";
        record.name = name;
        record.clause = "9.7";
        record.what = "a <requirement> with \"quotes\" & a | bar";
        record.verdict = verdict;
        record.reason = reason;
        record.attempts = 3;
        record.milliseconds = 1234;
        return record;
    }
    [[nodiscard]] RunRecord run() const {
        RunRecord run;
        run.facts.label = "device <a>";
        run.facts.peer = "192.0.2.1";
        run.facts.port = "af_packet:eth0";
        run.facts.seed = 5;
        run.facts.ended_by = "a reason";
        run.facts.device = {{"name", "x0"}, {"mtu", "4096"}};
        run.cases = {record("Passed", VerdictKind::kPassed),
                     record("Failed", VerdictKind::kFailed, "line 1\n<line 2>"),
                     record("Measured", VerdictKind::kInformational)};
        run.cases[1].packets = {"0.0 us tester RC WRITE <Only>"};
        run.cases[1].evidence = folder_ / "captures" / "Suite.Failed.pcapng";
        run.cases[2].measurements = {{"gap", "50 us"}};
        return run;
    }
    [[nodiscard]] RunRecord read_text(const std::string& text) const {
        std::ofstream(folder_ / "result.json") << text;
        return read_run(folder_ / "result.json");
    }

    std::filesystem::path folder_;
};

TEST_F(Reports, ARunIsReadAsItWasWritten) {
    const RunRecord written = run();
    const RunRecord read = read_text(to_json(written, folder_));
    EXPECT_EQ(read.facts.label, written.facts.label);
    EXPECT_EQ(read.facts.peer, written.facts.peer);
    EXPECT_EQ(read.facts.seed, written.facts.seed);
    EXPECT_EQ(read.facts.ended_by, written.facts.ended_by);
    EXPECT_EQ(read.facts.device, written.facts.device);
    ASSERT_EQ(read.cases.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(record_name(read.cases[i]), record_name(written.cases[i]));
        EXPECT_EQ(read.cases[i].verdict, written.cases[i].verdict);
        EXPECT_EQ(read.cases[i].reason, written.cases[i].reason);
        EXPECT_EQ(read.cases[i].what, written.cases[i].what);
        EXPECT_EQ(read.cases[i].packets, written.cases[i].packets);
        EXPECT_EQ(read.cases[i].evidence, written.cases[i].evidence);
        EXPECT_EQ(read.cases[i].attempts, 3U);
        EXPECT_EQ(read.cases[i].milliseconds, 1234);
    }
    ASSERT_EQ(read.cases[2].measurements.size(), 1U);
    EXPECT_EQ(read.cases[2].measurements[0].value, "50 us");
}

TEST_F(Reports, AProfileIsInEachOfThem) {
    RunRecord written = run();
    written.facts.profile = "rxe";
    written.cases[2].measurements = {
        {"MigReq", "1", ShownBehaviour{DeviceBehaviour::kMigReq, 1},
         Comparison{false, "differs from rxe: 0"}},
        {"kept", "0", ShownBehaviour{DeviceBehaviour::kEarlyPackets, 0}, Comparison{true, "as rxe"}},
        {"scope", "one", ShownBehaviour{DeviceBehaviour::kCnpScope, 0}, {}}};
    const std::string line =
        "profile rxe: agrees in 1, differs in 1: mig_req; not compared: repetition, "
        "udp_source_port, cnp, nak_triggers_cnp, ack_coalescing";
    EXPECT_EQ(profile_line(written), line + "\n");
    EXPECT_EQ(profile_line(run()), "");
    EXPECT_EQ(seen_text(written.cases[2]), "MigReq: 1 (differs from rxe: 0)\nkept: 0 (as rxe)\nscope: one");

    const std::string json = to_json(written, folder_);
    EXPECT_NE(json.find("\"differs\": [\n      \"mig_req\"\n    ]"), std::string::npos) << json;
    const RunRecord read = read_text(json);
    EXPECT_EQ(profile_line(read), line + "\n");
    EXPECT_EQ(seen_text(read.cases[2]), seen_text(written.cases[2]));
    ASSERT_TRUE(read.cases[2].measurements[2].shown.has_value());
    EXPECT_EQ(read.cases[2].measurements[2].shown->behaviour, DeviceBehaviour::kCnpScope);
    EXPECT_EQ(to_json(run(), folder_).find("profile"), std::string::npos);

    EXPECT_NE(html_report(written, folder_).find("<p>" + line), std::string::npos);
    EXPECT_NE(html_report(written, folder_).find("MigReq: 1 (differs from rxe: 0)"), std::string::npos);
    EXPECT_EQ(html_report(run(), folder_).find("profile"), std::string::npos);
    EXPECT_NE(junit_report(written).find("<property name=\"profile\" value=\"" + line + "\"/>"),
              std::string::npos);
    EXPECT_NE(markdown_matrix({run(), written}, "seen.md").find("| - | " + line + " |\n"), std::string::npos)
        << markdown_matrix({run(), written}, "seen.md");
    EXPECT_EQ(markdown_matrix({run()}, "seen.md").find("profile"), std::string::npos);
}

TEST_F(Reports, WhatIsNoRunIsRefusedWithItsName) {
    const std::string good = to_json(run(), folder_);
    const auto without = [&good](const std::string& part) {
        std::string text = good;
        text.replace(text.find(part), part.size(), "\"x\"");
        return text;
    };
    for (const std::string& text :
         {std::string{}, std::string("{}"), std::string("[1]"), std::string(R"({"format": 1})"),
          good.substr(0, good.size() / 2), without("\"passed\",\n      \"reason\""),
          std::regex_replace(good, std::regex("\"what\""),
                             "\"behaviour\": \"no_such\", \"shown\": 1, \"what\""),
          without("\"Suite.Failed\""), without("\"seed\""), without("1234"), without("\"measurements\"")}) {
        try {
            (void)read_text(text);
            ADD_FAILURE() << "read as a run: " << text.substr(0, 80);
        } catch (const SetupError& error) {
            EXPECT_NE(std::string(error.what()).find("result.json"), std::string::npos) << error.what();
        }
    }
    EXPECT_THROW((void)read_run(folder_ / "none.json"), SetupError);
    EXPECT_THROW(write_text(folder_ / "none" / "file", "text"), SetupError);
}

TEST_F(Reports, PagesNameEachCaseAndItsEvidence) {
    const std::string page = html_report(run(), folder_);
    for (const char* text : {"<title>urnic conform: device &lt;a&gt;</title>", "id=\"Suite.Failed\"",
                             "&lt;line 2&gt;", "href=\"captures/Suite.Failed.pcapng\"",
                             "RC WRITE &lt;Only&gt;", "gap: 50 us", "1.234 s", "a reason"}) {
        EXPECT_NE(page.find(text), std::string::npos) << text;
    }
    EXPECT_EQ(page.find("<line 2>"), std::string::npos);
    const std::string junit = junit_report(run());
    EXPECT_NE(junit.find("tests=\"3\" failures=\"1\""), std::string::npos) << junit;
    EXPECT_NE(junit.find("informational: gap: 50 us"), std::string::npos) << junit;
}

TEST_F(Reports, AFileWithoutAFolderLiesInTheWorkingDirectory) {
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    const std::filesystem::path file = "bare.json";
    write_text(file, to_json(run(), file.parent_path()));
    EXPECT_EQ(read_run(file).cases[1].evidence, folder_ / "captures" / "Suite.Failed.pcapng");
    EXPECT_NE(html_report(run(), "").find("href=\"captures/Suite.Failed.pcapng\""), std::string::npos);
    EXPECT_NE(html_matrix({run()}, "").find("href=\"captures/Suite.Failed.pcapng\""), std::string::npos);
    std::filesystem::current_path(before);
}

TEST_F(Reports, ARequirementSaysWhereItStands) {
    CaseRecord record = run().cases[0];
    EXPECT_EQ(clause_text(record), "IBA 9.7");
    record.clause = "RFC 826 (RFC 4861 7.2.4)";
    EXPECT_EQ(clause_text(record), "RFC 826 (RFC 4861 7.2.4)");
}

TEST_F(Reports, AMatrixHasARowForEachCaseOfAnyRun) {
    RunRecord other = run();
    other.facts.label = "device b";
    other.cases.erase(other.cases.begin());
    other.cases.push_back(record("Only", VerdictKind::kNotApplicable, "has none"));
    const std::vector<RunRecord> runs = {run(), other};
    const std::vector<MatrixRow> rows = matrix_rows(runs);
    ASSERT_EQ(rows.size(), 4U);
    EXPECT_EQ(rows[0].cells[1], nullptr);
    EXPECT_EQ(rows[3].cells[0], nullptr);
    EXPECT_EQ(rows[3].any().name, "Only");
    const std::string table = markdown_matrix(runs, "seen.md");
    EXPECT_NE(
        table.find("| 9.7 | `Suite.Passed` | a \\<requirement> with \"quotes\" & a \\| bar | passed | |"),
        std::string::npos)
        << table;
    EXPECT_NE(table.find("[failed](seen.md#suitefailed)"), std::string::npos) << table;
    const std::string seen = markdown_evidence(runs);
    EXPECT_NE(seen.find("### Suite.Failed"), std::string::npos) << seen;
    EXPECT_EQ(seen.find("Suite.Passed"), std::string::npos) << seen;
    const std::string page = html_matrix(runs, folder_);
    EXPECT_NE(page.find("href=\"#d1-Suite.Only\""), std::string::npos);
    EXPECT_NE(page.find("id=\"d1-Suite.Only\""), std::string::npos);
}

}  // namespace
}  // namespace urnic::conform
