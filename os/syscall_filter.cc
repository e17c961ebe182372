#include "os/syscall_filter.h"

#include <seccomp.h>

#include <cerrno>

#include "base/check.h"
#include "os/setup_error.h"

namespace urnic {

namespace {

/// libseccomp's number of what the kernel can: from here on it can end the process, which rules ask for.
constexpr unsigned kApiWithKillProcess = 3;

}  // namespace

struct SyscallFilter::Context {
    const bool is_supported = seccomp_api_get() >= kApiWithKillProcess;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));

    Context() {
        if (filter == nullptr) {
            throw SetupError("cannot make a filter of system calls");
        }
        // A filter that asks for no mitigation of its own: no code of others runs here that could look for
        // speculative stores, and the mitigation slows copying down (prctl(2), PR_SET_SPECULATION_CTRL).
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
        // A binary tree of numbers.
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() { seccomp_release(filter); }

    void add(std::uint32_t action, const char* name, unsigned num_conditions = 0,
             const scmp_arg_cmp* condition = nullptr) {
        const int number = seccomp_syscall_resolve_name(name);
        if (is_supported && number != __NR_SCMP_ERROR) {
            const int error = seccomp_rule_add_array(filter, action, number, num_conditions, condition);
            // What no rule says anyway; a call that only another architecture has.
            URNIC_CHECK(error == 0 || error == -EACCES || error == -EDOM);
        }
    }
    void add_if(std::uint32_t action, const char* name, unsigned argument, std::uint64_t mask,
                std::uint64_t value) {
        const scmp_arg_cmp condition{argument, SCMP_CMP_MASKED_EQ, mask, value};
        add(action, name, 1, &condition);
    }
};

SyscallFilter::SyscallFilter() : context_(std::make_unique<Context>()) {}
SyscallFilter::~SyscallFilter() = default;

void SyscallFilter::allow(const char* name) { context_->add(SCMP_ACT_ALLOW, name); }

void SyscallFilter::allow_if(const char* name, unsigned argument, std::uint64_t mask, std::uint64_t value) {
    context_->add_if(SCMP_ACT_ALLOW, name, argument, mask, value);
}

void SyscallFilter::refuse(const char* name, int error) {
    context_->add(SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)), name);
}

void SyscallFilter::refuse_if(const char* name, unsigned argument, std::uint64_t mask, std::uint64_t value,
                              int error) {
    context_->add_if(SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)), name, argument, mask, value);
}

void SyscallFilter::kill(const char* name) { context_->add(SCMP_ACT_KILL_PROCESS, name); }

void SyscallFilter::kill_if(const char* name, unsigned argument, std::uint64_t mask, std::uint64_t value) {
    context_->add_if(SCMP_ACT_KILL_PROCESS, name, argument, mask, value);
}

int SyscallFilter::install(Scope scope) {
    if (!context_->is_supported) {
        return ENOSYS;
    }
    if (const int error =
            seccomp_attr_set(context_->filter, SCMP_FLTATR_CTL_TSYNC, scope == Scope::kProcess ? 1 : 0);
        error != 0) {
        return -error;
    }
    return -seccomp_load(context_->filter);
}

}  // namespace urnic
