// The program of the packet scripts: runs them, and all cases of conform/cases, against a QP that goes back
// N, or with
// --selective against one that holds what comes early. With --list it prints suite, name, clause and what is
// checked, a line each, separated by tabs.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <memory>
#include <string_view>

#include "conform/case/case_list.h"
#include "tests/sim/script_list.h"
#include "tests/sim/scripts/sim_bench.h"

namespace {

using urnic::conform::Case;

class CaseTest : public ::testing::Test {
  public:
    explicit CaseTest(const Case& entry) : case_(entry) {}
    void TestBody() override {
        urnic::sim::SimBench bench;
        try {
            case_.make()->play(bench);
        } catch (const urnic::conform::StepFailed& failure) {
            ADD_FAILURE() << failure.what();
        }
    }

  private:
    const Case& case_;
};

void add_cases() {
    for (const Case& entry : urnic::conform::case_list()) {
        urnic::sim::register_script({entry.suite, entry.name, entry.clause, entry.what});
    }
}

void register_cases() {
    for (const Case& entry : urnic::conform::case_list()) {
        // A suite has cases here and scripts there, and GoogleTest wants one class for each suite.
        const std::string suite = std::string(entry.suite) + "_";
        ::testing::RegisterTest(suite.c_str(), entry.name, nullptr, nullptr, __FILE__, __LINE__,
                                [&entry]() -> CaseTest* { return new CaseTest(entry); });
    }
}

}  // namespace

int main(int argc, char** argv) {
    add_cases();
    if (urnic::sim::print_script_list(argc, argv)) {
        return 0;
    }
    // A script makes RNICs with tables of tens of megabytes. Their pages must come untouched from the system
    // each time: in memory that was used before, calloc() would clear all of them.
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_PERTURB, 0);  // MALLOC_PERTURB_ makes calloc() write to untouched pages, too
    testing::InitGoogleTest(&argc, argv);
    register_cases();
    if (argc == 2 && std::string_view(argv[1]) == "--selective") {
        urnic::sim::set_recovery(urnic::sim::Recovery::kSelective);
    } else if (argc != 1) {
        std::fprintf(stderr, "usage: %s [--list | --selective], and what GoogleTest takes\n", argv[0]);
        return 2;
    }
    return RUN_ALL_TESTS();
}
