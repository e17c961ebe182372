// The program of the message scripts. With --list it prints suite, name, clause and what is checked, a line
// each, separated by tabs.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "tests/sim/rpcrdma/rpc_script.h"

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == "--list") {
        for (const urnic::rpcrdma::sim::ScriptEntry& entry : urnic::rpcrdma::sim::script_list()) {
            std::printf("%s\t%s\t%s\t%s\n", entry.suite, entry.name, entry.clause, entry.what);
        }
        return 0;
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
