#include "bench/verbs/computing.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>

#include "bench/verbs/side.h"

namespace urnic::bench {

void pin_this_process(std::uint32_t index) {
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        give_up("sched_getaffinity");
    }
    std::uint32_t left = index % static_cast<std::uint32_t>(CPU_COUNT(&all));
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &all) && left-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            if (sched_setaffinity(0, sizeof one, &one) != 0) {
                give_up("sched_setaffinity");
            }
            return;
        }
    }
}

CpusOfThisProcess::CpusOfThisProcess() {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) {
        give_up("sched_getaffinity");
    }
}
CpusOfThisProcess::~CpusOfThisProcess() { (void)sched_setaffinity(0, sizeof before_, &before_); }

Computing::Computing(std::uint32_t count, bool pinned) {
    const pid_t parent = getpid();
    for (std::uint32_t i = 0; i < count; ++i) {
        const pid_t child = fork();
        if (child == -1) {
            give_up("fork");
        }
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (pinned) {
                pin_this_process(i);
            }
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
