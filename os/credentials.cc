#include "os/credentials.h"

#include <cap-ng.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/check.h"
#include "os/setup_error.h"

namespace urnic {

namespace {

[[noreturn]] void fail_to(const std::string& what, int error) {
    throw SetupError(fmt::format("cannot {}: {}", what, std::strerror(error)));
}

/// What libcap-ng knows of the calling thread: from the kernel, not from the last time.
void read_thread() {
    capng_clear(CAPNG_SELECT_ALL);
    if (capng_get_caps_process() != 0) {
        fail_to("read the capabilities of a thread", errno);
    }
}

/// The word behind `label` in a thread's /proc/PID/task/TID/status; empty: there is none.
std::string status_word(const std::filesystem::path& thread, const std::string& label) {
    std::ifstream file(thread / "status");
    for (std::string word; file >> word;) {
        if (word == label) {
            file >> word;
            return word;
        }
    }
    return {};
}

}  // namespace

std::string capability_names(CapabilitySet set) {
    std::string names;
    for (unsigned number = 0; number < 64; ++number) {
        if ((set >> number & 1U) == 0) {
            continue;
        }
        const char* const name = capng_capability_to_name(number);
        std::string text = name != nullptr ? name : std::to_string(number);
        for (char& letter : text) {
            letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
        }
        names += (names.empty() ? "CAP_" : ", CAP_") + text;
    }
    return names.empty() ? "no capability" : names;
}

CapabilitySet permitted_capabilities() {
    read_thread();
    CapabilitySet set = 0;
    for (unsigned number = 0; number <= CAP_LAST_CAP; ++number) {
        if (capng_have_capability(CAPNG_PERMITTED, number) != 0) {
            set |= CapabilitySet{1} << number;
        }
    }
    return set;
}

std::optional<Account> find_account(const std::string& name) {
    const passwd* const entry = ::getpwnam(name.c_str());
    return entry == nullptr ? std::nullopt
                            : std::optional(Account{entry->pw_name, entry->pw_uid, entry->pw_gid});
}

std::string user_name(uid_t uid) {
    const passwd* const entry = ::getpwuid(uid);
    return entry != nullptr ? entry->pw_name : std::to_string(uid);
}

ActingAs::ActingAs(const Account* account) : before_uid_(::geteuid()), before_gid_(::getegid()) {
    if (account == nullptr || account->uid == before_uid_) {
        return;
    }
    if (::setegid(account->gid) != 0 || ::seteuid(account->uid) != 0) {
        const int error = errno;
        URNIC_CHECK(::setegid(before_gid_) == 0);
        fail_to("act as the user " + account->name, error);
    }
}

ActingAs::~ActingAs() {
    if (::geteuid() != before_uid_) {
        // Going on as somebody else would be worse than ending.
        URNIC_CHECK(::seteuid(before_uid_) == 0 && ::setegid(before_gid_) == 0);
    }
}

void give_up_bounding_set(bool stays_permitted) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0) {
        fail_to("set no_new_privs", errno);
    }
    if (stays_permitted && ::prctl(PR_SET_KEEPCAPS, 1UL) != 0) {
        fail_to("keep capabilities for another user", errno);
    }
    read_thread();
    if (capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP) != 0) {
        capng_clear(CAPNG_SELECT_BOUNDS);
        if (const int error = capng_apply(CAPNG_SELECT_BOUNDS); error != 0) {
            fail_to("empty the bounding set of capabilities", errno);
        }
    }
}

// libc gives the new numbers to all threads.
void become(const Account& account) {
    if (::initgroups(account.name.c_str(), account.gid) != 0 ||
        ::setresgid(account.gid, account.gid, account.gid) != 0 ||
        ::setresuid(account.uid, account.uid, account.uid) != 0) {
        fail_to("become the user " + account.name, errno);
    }
}

void keep_capabilities(CapabilitySet kept) {
    kept &= permitted_capabilities();
    capng_clear(CAPNG_SELECT_CAPS);
    for (unsigned number = 0; number <= CAP_LAST_CAP; ++number) {
        if ((kept >> number & 1U) != 0) {
            (void)capng_update(CAPNG_ADD, static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED),
                               number);
        }
    }
    // An ambient capability is an inheritable one, so none is left.
    if (capng_apply(CAPNG_SELECT_CAPS) != 0) {
        fail_to("give capabilities up", errno);
    }
    (void)::prctl(PR_SET_KEEPCAPS, 0UL);
}

std::string thread_with_more_rights(CapabilitySet kept, uid_t uid) {
    std::error_code ignored;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
        const std::string permitted = status_word(thread.path(), "CapPrm:");
        if (permitted.empty()) {
            continue;  // it has ended
        }
        if ((std::stoull(permitted, nullptr, 16) & ~kept) != 0 ||
            status_word(thread.path(), "Uid:") != std::to_string(uid)) {
            return status_word(thread.path(), "Name:");
        }
    }
    return {};
}

}  // namespace urnic
