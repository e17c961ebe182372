#include "cli/become.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "cli/launch_error.h"

namespace urnic::cli {

void become(Part part, char* const* arguments) {
    std::string program = find_part(part).string();
    std::vector<char*> words = {program.data()};
    for (; *arguments != nullptr; ++arguments) words.push_back(*arguments);
    words.push_back(nullptr);
    execv(program.c_str(), words.data());
    throw LaunchError(fmt::format("cannot run {}: {}", program, std::strerror(errno)));
}

}  // namespace urnic::cli
