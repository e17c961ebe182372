#include "daemon/cm/port_table.h"

#include <algorithm>
#include <cerrno>

namespace urnic::daemon {

namespace {

std::uint32_t key_of(const PortUser& user) { return std::uint32_t{user.space} << 16U | user.at.port; }

}  // namespace

int PortTable::check(const PortUser& user, bool shares) const {
    const auto found = users_.find(key_of(user));
    if (found == users_.end()) {
        return 0;
    }
    for (const PortUser* other : found->second) {
        if (other == &user || (shares && other->shares) ||
            (user.one_family && other->one_family && user.at.family != other->at.family)) {
            continue;
        }
        if (user.at.is_any() || other->at.is_any()) {
            return EADDRNOTAVAIL;
        }
        if (user.at.family == other->at.family && user.at.gid == other->at.gid) {
            return EADDRINUSE;
        }
    }
    return 0;
}

bool PortTable::take_free(PortUser& user) {
    for (std::uint32_t tried = 0; tried < kNumFree; ++tried) {
        user.at.port = static_cast<std::uint16_t>(kFirstFree + next_);
        next_ = (next_ + 1) % kNumFree;
        if (users_.count(key_of(user)) == 0) {
            return true;
        }
    }
    user.at.port = 0;
    return false;
}

int PortTable::bind(PortUser& user, bool is_root) {
    const std::uint16_t wanted = user.at.port;
    if (wanted == 0) {
        if (!take_free(user)) {
            return EADDRNOTAVAIL;
        }
    } else if (wanted < kPrivileged && !is_root) {
        return EACCES;
    } else if (const int error = check(user, user.shares); error != 0) {
        return error;
    }
    try {
        users_[key_of(user)].push_back(&user);
    } catch (...) {
        const auto made = users_.find(key_of(user));
        if (made != users_.end() && made->second.empty()) {
            users_.erase(made);
        }
        user.at.port = wanted;
        throw;
    }
    user.is_bound = true;
    if (user.of_user != nullptr) {
        ++*user.of_user;
    }
    return 0;
}

int PortTable::listen(const PortUser& user) const { return check(user, false); }

void PortTable::release(PortUser& user) {
    if (!user.is_bound) {
        return;
    }
    const auto found = users_.find(key_of(user));
    auto& users = found->second;
    users.erase(std::remove(users.begin(), users.end(), &user), users.end());
    if (users.empty()) {
        users_.erase(found);
    }
    user.is_bound = false;
    if (user.of_user != nullptr) {
        --*user.of_user;
    }
}

}  // namespace urnic::daemon
