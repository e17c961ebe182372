// The program of the connection manager's packet scripts. With --list it prints suite, name, clause and what
// is checked, a line each, separated by tabs.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "tests/sim/cm/cm_script.h"

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == "--list") {
        for (const urnic::sim::cm::ScriptEntry& entry : urnic::sim::cm::script_list()) {
            std::printf("%s\t%s\t%s\t%s\n", entry.suite, entry.name, entry.clause, entry.what);
        }
        return 0;
    }
    testing::InitGoogleTest(&argc, argv);
    if (argc != 1) {
        std::fprintf(stderr, "usage: %s [--list], and what GoogleTest takes\n", argv[0]);
        return 2;
    }
    return RUN_ALL_TESTS();
}
