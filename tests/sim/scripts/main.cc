// The program of the packet scripts: runs them against a QP that goes back N, or with --selective against one
// that holds what comes early. With --list it prints suite, name, clause and what is checked, a line each,
// separated by tabs.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <string_view>

#include "tests/sim/scripts/rc_script.h"

int main(int argc, char** argv) {
    if (urnic::sim::print_script_list(argc, argv)) {
        return 0;
    }
    // A script makes RNICs with tables of tens of megabytes. Their pages must come untouched from the system
    // each time: in memory that was used before, calloc() would clear all of them.
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_PERTURB, 0);  // MALLOC_PERTURB_ makes calloc() write to untouched pages, too
    testing::InitGoogleTest(&argc, argv);
    if (argc == 2 && std::string_view(argv[1]) == "--selective") {
        urnic::sim::set_recovery(urnic::sim::Recovery::kSelective);
    } else if (argc != 1) {
        std::fprintf(stderr, "usage: %s [--list | --selective], and what GoogleTest takes\n", argv[0]);
        return 2;
    }
    return RUN_ALL_TESTS();
}
