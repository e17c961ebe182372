#include "bench/verbs/computing.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "bench/verbs/side.h"

namespace urnic::bench {

Computing::Computing(std::uint32_t count) {
    const pid_t parent = getpid();
    for (std::uint32_t i = 0; i < count; ++i) {
        const pid_t child = fork();
        if (child == -1) {
            give_up("fork");
        }
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            volatile std::uint64_t sum = 0;
            while (getppid() == parent) {
                for (std::uint32_t step = 0; step < 1'000'000; ++step) {
                    sum = sum + step;
                }
            }
            std::_Exit(0);
        }
        children_.push_back(child);
    }
}

Computing::~Computing() {
    for (const pid_t child : children_) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
}

}  // namespace urnic::bench
