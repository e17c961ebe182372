#include "cli/doctor_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/doctor.h"

namespace urnic::cli {

namespace {

constexpr const char* kDoctorFooter =
    R"(Each line is one thing that urnic needs, tried out here: "works", "limited" (something is slower, or one way
of use is closed), or "fails" (no program can use an RNIC). What is not right has a line with what mends it.
Exit status: 0 if programs can use RNICs here, 1 if not.

Examples:
  urnic doctor
  podman run IMAGE urnic doctor
  urnic doctor --json | jq '.[] | select(.health != "works")')";

const char* name_of(Health health) {
    switch (health) {
        case Health::kWorks:
            return "works";
        case Health::kLimited:
            return "limited";
        case Health::kFails:
            break;
    }
    return "fails";
}

void print_json(const std::vector<Finding>& findings) {
    auto list = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
        list.push_back({{"what", finding.what},
                        {"health", name_of(finding.health)},
                        {"detail", finding.detail},
                        {"hint", finding.hint}});
    }
    fmt::print("{}\n", list.dump(2));
}

void print_text(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) {
        fmt::print("{:<8} {:<14} {}\n", name_of(finding.health), finding.what, finding.detail);
        if (!finding.hint.empty()) fmt::print("{:<8} {:<14} hint: {}\n", "", "", finding.hint);
    }
}

}  // namespace

DoctorCommand::DoctorCommand(const Command& app) {
    doctor_ = app.command("doctor", "Tries out what works on this machine or in this container.");
    doctor_.footer(kDoctorFooter);
    doctor_.flag("--json", json_, "print JSON");
}

int DoctorCommand::run(const std::string& version) const {
    std::vector<Finding> findings = examine_machine(version);
    const auto fails = [](const Finding& finding) { return finding.health == Health::kFails; };
    // Without its parts it would only say again what is missing.
    if (std::none_of(findings.begin(), findings.end(), fails)) findings.push_back(try_standalone());
    if (json_) {
        print_json(findings);
    } else {
        print_text(findings);
    }
    return std::any_of(findings.begin(), findings.end(), fails) ? 1 : 0;
}

}  // namespace urnic::cli
