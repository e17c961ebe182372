#include "experiment/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace urnic::experiment {

Progress::Progress(std::string title, bool quiet)
    : title_(std::move(title)),
      on_(!quiet && isatty(STDERR_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
    if (on_) {
        std::fputs("\r\033[K", stderr);
    }
}

void Progress::show(double part) {
    if (!on_) {
        return;
    }
    constexpr int kWidth = 40;
    const auto filled = static_cast<int>(part * kWidth);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    const double left = part > 0 ? passed.count() * (1 - part) / part : 0;
    fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3.0f} %, {:.0f} s left\033[K", title_, "", filled, "",
               kWidth - filled, 100 * part, left);
    std::fflush(stderr);
}

}  // namespace urnic::experiment
