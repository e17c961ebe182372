#include "tests/suites/torture/shared.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace urnic::torture {
namespace {

std::uint64_t seed_of_run = 0;
thread_local std::string thread_name = "main";

}  // namespace

void fail(const char* format, ...) {
    std::array<char, 500> text{};
    const int error = errno;
    va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    (void)std::fprintf(stderr, "torture: %s (errno %d: %s)\n  in thread %s; repeat it with --seed %llu\n",
                       text.data(), error, std::strerror(error), thread_name.c_str(),
                       static_cast<unsigned long long>(seed_of_run));
    // With URNIC_TORTURE_ABORT a core, or a debugger, has all threads.
    if (std::getenv("URNIC_TORTURE_ABORT") != nullptr) std::abort();
    std::_Exit(1);
}

const char* name_of(ibv_qp_type type) {
    switch (type) {
        case IBV_QPT_RC:
            return "RC";
        case IBV_QPT_UC:
            return "UC";
        case IBV_QPT_UD:
            return "UD";
        case IBV_QPT_XRC_SEND:
            return "XRC";
        case IBV_QPT_XRC_RECV:
            return "XRC receiver";
        default:
            return "?";
    }
}

void name_thread(const std::string& name) { thread_name = name; }

ibv_context* open_device(unsigned index) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    const std::string name = "urnic" + std::to_string(index);
    ibv_context* context = nullptr;
    for (int i = 0; list != nullptr && i < count; ++i) {
        if (name == ibv_get_device_name(list[i])) context = ibv_open_device(list[i]);
    }
    if (list != nullptr) ibv_free_device_list(list);
    if (context == nullptr) fail("%s cannot be opened; run this under urnic run", name.c_str());
    return context;
}

Shared::Shared(std::uint64_t seed, std::size_t arena_bytes)
    : seed_(seed),
      arena_bytes_(arena_bytes),
      arena_(static_cast<std::uint8_t*>(
          mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    seed_of_run = seed;
    if (arena_ == MAP_FAILED) fail("no memory");
    for (unsigned i = 0; i < contexts_.size(); ++i) {
        contexts_[i] = open_device(i);
        if (ibv_query_gid(contexts_[i], kPort, kGid, &gids_[i]) != 0) fail("query_gid");
    }
}

Shared::~Shared() {
    for (ibv_context* context : contexts_) {
        if (ibv_close_device(context) != 0) fail("close_device");
    }
    munmap(arena_, arena_bytes_);
}

void Shared::count(const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++done_[what];
}

bool Shared::has_done(const std::string& what) const {
    const std::lock_guard lock(mutex_);
    return done_.count(what) != 0;
}

bool Shared::not_offered(const std::string& what) {
    if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
    const std::lock_guard lock(mutex_);
    ++not_offered_[what];
    return true;
}

void Shared::print() const {
    for (const auto& [what, times] : done_) {
        std::printf("done %s: %llu\n", what.c_str(), static_cast<unsigned long long>(times));
    }
    for (const auto& [what, times] : not_offered_) std::printf("not offered: %s\n", what.c_str());
    (void)std::fflush(stdout);
}

}  // namespace urnic::torture
