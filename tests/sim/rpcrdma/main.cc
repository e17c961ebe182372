// The program of the message scripts. With --list it prints suite, name, clause and what is checked, a line
// each, separated by tabs.
#include <gtest/gtest.h>

#include "tests/sim/rpcrdma/rpc_script.h"

int main(int argc, char** argv) {
    if (urnic::sim::print_script_list(argc, argv)) {
        return 0;
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
