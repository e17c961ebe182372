// The program of the connection manager's packet scripts. With --list it prints suite, name, clause and what
// is checked, a line each, separated by tabs.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/sim/cm/cm_script.h"

int main(int argc, char** argv) {
    if (urnic::sim::print_script_list(argc, argv)) {
        return 0;
    }
    testing::InitGoogleTest(&argc, argv);
    if (argc != 1) {
        std::fprintf(stderr, "usage: %s [--list], and what GoogleTest takes\n", argv[0]);
        return 2;
    }
    return RUN_ALL_TESTS();
}
