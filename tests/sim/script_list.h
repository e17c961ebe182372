// The scripts of a program, for the table in docs/conformance/packet-scripts.md, and where a script has a
// step.
#pragma once

#include <cstdio>
#include <string_view>
#include <vector>

#include "conform/case/where.h"

namespace urnic::sim {

/// A script as the table lists it.
struct ScriptEntry {
    const char* suite;
    const char* name;
    const char* clause;  // of the IBA specification, volume 1, "A17..." for the RoCEv2 annex; or the document
                         // and its section
    const char* what;
};

/// All of this program, in the order of their registration.
inline std::vector<ScriptEntry>& script_list() {
    static std::vector<ScriptEntry> list;
    return list;
}
/// Writes the script down for the list; the return value makes it an initializer.
inline bool register_script(const ScriptEntry& entry) {
    script_list().push_back(entry);
    return true;
}
/// With --list as the only argument: prints suite, name, clause and what is checked, a line each, separated
/// by tabs. Returns whether it did.
inline bool print_script_list(int argc, char** argv) {
    if (argc != 2 || std::string_view(argv[1]) != "--list") {
        return false;
    }
    for (const ScriptEntry& entry : script_list()) {
        std::printf("%s\t%s\t%s\t%s\n", entry.suite, entry.name, entry.clause, entry.what);
    }
    return true;
}

using conform::Where;

}  // namespace urnic::sim
