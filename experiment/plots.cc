#include "experiment/plots.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace urnic::experiment {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "/usr/bin/python3";

// Beside the program, where it is built and where it is installed.
fs::path find_script() {
    fs::path script = fs::read_symlink("/proc/self/exe").parent_path() / "draw.py";
    if (access(script.c_str(), R_OK) != 0) {
        throw std::runtime_error(
            fmt::format("there is no {}: install with meson install, or give --no-draw", script.string()));
    }
    return script;
}

}  // namespace

void draw(const fs::path& results, const fs::path& out) {
    std::vector<std::string> words = {kPython, find_script().string(), results.string(), out.string()};
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    pid_t pid = 0;
    if (const int error = posix_spawn(&pid, kPython, nullptr, nullptr, arguments.data(), environ);
        error != 0) {
        throw std::runtime_error(fmt::format("{} cannot be run: {}; install python3, or give --no-draw",
                                             kPython, std::strerror(error)));
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        throw std::runtime_error(
            fmt::format("{} is not drawn: see above; pictures need python3-matplotlib (apt-get install "
                        "python3-matplotlib), or give --no-draw",
                        results.string()));
    }
}

}  // namespace urnic::experiment
