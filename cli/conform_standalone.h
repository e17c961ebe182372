// `urnic conform --port standalone`: judges an RNIC of urnic's own, over a veth pair that nobody else sees.
#pragma once

namespace urnic::cli {

/// Where the command line of `urnic conform` asks for it, makes a network namespace (with a user namespace
/// where that needs one) and a veth pair in it, starts a daemon and what the tester needs beside the RNIC at
/// one end and the tester at the other, and ends as the tester ended, or with the tester's status of a run
/// that did not come to its end. Returns where another device is meant. `arguments` is null-terminated.
void run_conform_standalone(char* const* arguments);

}  // namespace urnic::cli
