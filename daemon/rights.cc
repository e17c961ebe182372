#include "daemon/rights.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>

#include "daemon/run_dir.h"
#include "os/log.h"

namespace urnic::daemon {

namespace {

constexpr CapabilitySet set_of(int capability) {
    return CapabilitySet{1} << static_cast<unsigned>(capability);
}

/// Other threads would end the process with what they throw.
template <typename Function>
void run_on(const std::function<void(FunctionRef)>& threads, Function function) {
    std::exception_ptr problem;
    threads([&] {
        try {
            function();
        } catch (...) {
            problem = std::current_exception();
        }
    });
    if (problem) {
        std::rethrow_exception(problem);
    }
}

}  // namespace

CapabilitySet needed_capabilities(const Config& config, bool is_locking_unlimited) {
    constexpr CapabilitySet kRaw = set_of(CAP_NET_RAW);
    constexpr CapabilitySet kAdmin = set_of(CAP_NET_ADMIN);
    CapabilitySet needed = 0;
    for (const RnicConfig& rnic : config.rnics) {
        switch (rnic.port) {
            case PortKind::kAfPacket:
                // The kernel asks for neighbours on behalf of those who may configure the network.
                needed |= kRaw | (borrows_addresses(rnic) ? kAdmin : 0);
                break;
            case PortKind::kAfXdp:
                needed |= kRaw | kAdmin | (is_locking_unlimited ? 0 : set_of(CAP_IPC_LOCK));
                break;
            case PortKind::kVdev:  // drivers that put interfaces up and open them
                needed |= kRaw | kAdmin;
                break;
            case PortKind::kFabric:
            case PortKind::kMemif:
            case PortKind::kPci:
                break;
        }
    }
    return needed;
}

// Who may exceed it may also take it away, unless the machine withholds CAP_SYS_RESOURCE.
bool lift_locked_memory_limit() {
    rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
    (void)::setrlimit(RLIMIT_MEMLOCK, &limit);
    return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

std::optional<Account> account_of(const DaemonConfig& config) {
    if (config.user.empty()) {
        return std::nullopt;
    }
    auto account = find_account(config.user);
    if (!account) {
        throw StartError(
            fmt::format("user \"{}\": there is no such user. Make it (sudo useradd --system --no-create-home "
                        "{}), or name another one",
                        config.user, config.user));
    }
    if (account->uid == ::geteuid()) {
        return std::nullopt;
    }
    constexpr CapabilitySet kBecome = set_of(CAP_SETUID) | set_of(CAP_SETGID);
    if ((permitted_capabilities() & kBecome) != kBecome) {
        throw StartError(
            fmt::format("user \"{}\": {} may not become another user. Start urnicd as root or as {}, or take "
                        "'user' out of the configuration",
                        config.user, user_name(::geteuid()), config.user));
    }
    return account;
}

void give_up_rights(CapabilitySet kept, const std::optional<Account>& account, const Threads& threads) {
    const CapabilitySet before = permitted_capabilities();
    run_on(threads.that_open, [&] { give_up_bounding_set(account.has_value()); });
    run_on(threads.others, [] { give_up_bounding_set(false); });
    if (account) {
        become(*account);
    }
    run_on(threads.that_open, [&] { keep_capabilities(kept); });
    run_on(threads.others, [] { keep_capabilities(0); });
    kept &= before;
    if (const std::string thread = thread_with_more_rights(kept, ::geteuid()); !thread.empty()) {
        log_warning("the thread {} of a library keeps the rights that urnicd was started with", thread);
    }
    if (account || before != kept) {
        log_info("continues as {} with {}", user_name(::geteuid()), capability_names(kept));
    }
}

}  // namespace urnic::daemon
