// As whom the process acts, and with which capabilities (credentials(7), capabilities(7)). A user is one of
// the whole process, capabilities are of each thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace urnic {

/// A bit for each capability: 1 << CAP_NET_RAW.
using CapabilitySet = std::uint64_t;

/// "CAP_NET_RAW, CAP_NET_ADMIN"; "no capability" for the empty set.
[[nodiscard]] std::string capability_names(CapabilitySet set);
/// What the calling thread is permitted.
[[nodiscard]] CapabilitySet permitted_capabilities();

/// An entry of the user database.
struct Account {
    std::string name;
    uid_t uid = 0;
    gid_t gid = 0;
};
/// nullopt: there is no such user.
[[nodiscard]] std::optional<Account> find_account(const std::string& name);
/// The user's name; its number where the database has none.
[[nodiscard]] std::string user_name(uid_t uid);

/// While it exists the process acts as another user towards files, without capabilities. Not for two threads
/// at a time.
class ActingAs {
  public:
    /// nullptr: nothing changes. Throws SetupError.
    explicit ActingAs(const Account* account);
    ~ActingAs();
    ActingAs(const ActingAs&) = delete;
    ActingAs& operator=(const ActingAs&) = delete;

  private:
    uid_t before_uid_;
    gid_t before_gid_;
};

// To give rights up, in this order: give_up_bounding_set() on each thread, become(), keep_capabilities() on
// each thread.

/// Programs that the thread would execute could get no capability, and gain nothing by set-user-ID bits
/// (PR_SET_NO_NEW_PRIVS). What the thread is permitted outlives become() if `stays_permitted`.
void give_up_bounding_set(bool stays_permitted);
/// The process becomes that user for good, with his groups alone. Other threads lose all capabilities but
/// for those that have called give_up_bounding_set(true). Throws SetupError.
void become(const Account& account);
/// From now on the calling thread has at most these capabilities, and none that a program which it executes
/// would inherit. Throws SetupError.
void keep_capabilities(CapabilitySet kept);

/// A thread of the process that is permitted more than `kept`, or acts as another user than `uid`; empty:
/// there is none. It can be one that a library has made.
[[nodiscard]] std::string thread_with_more_rights(CapabilitySet kept, uid_t uid);

}  // namespace urnic
