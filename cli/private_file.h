// Files with what packets of all users say: for their owner alone.
#pragma once

#include <string>

#include "os/unique_fd.h"

namespace urnic::cli {

enum class Replace {
    kContents,  // of a file that is the caller's own; a link is followed
    kFile,      // by another file: nothing that lies there under this name is written to
};

/// Opens `path` for writing, empty and with mode 0600. What is no regular file (a pipe, a terminal) is opened
/// as it is. Throws LaunchError: it cannot be written, or belongs to another user, who could read it.
[[nodiscard]] UniqueFd open_private_file(const std::string& path, Replace replace);

}  // namespace urnic::cli
