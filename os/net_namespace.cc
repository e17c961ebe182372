#include "os/net_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "os/setup_error.h"
#include "os/thread.h"
#include "os/unique_fd.h"

namespace urnic {

namespace {

UniqueFd open_namespace(const std::string& name) {
    const std::string path = name.find('/') == std::string::npos ? "/run/netns/" + name : name;
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT) {
        throw SetupError(fmt::format(
            "there is no network namespace \"{}\" ({}): see ip netns list, or make it (ip netns add {})",
            name, path, name));
    }
    if (!fd) {
        throw SetupError(fmt::format("cannot open the network namespace {}: {}. Run urnicd as root", path,
                                     std::strerror(errno)));
    }
    return fd;
}

void enter(const UniqueFd& where, const std::string& name) {
    if (::setns(where.get(), CLONE_NEWNET) != 0) {
        const int error = errno;
        throw SetupError(fmt::format("cannot enter the network namespace \"{}\": {}. {}", name,
                                     std::strerror(error),
                                     error == EINVAL ? "That file is no network namespace"
                                                     : "Run urnicd as root, or with CAP_SYS_ADMIN"));
    }
}

}  // namespace

/// The thread inside. The namespace that a thread is in is its own.
class NetNamespace::Resident {
  public:
    Resident() : thread_(start_thread([this] { loop(); })) {
        (void)pthread_setname_np(thread_.native_handle(), "urnic-netns");
    }
    ~Resident() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    Resident(const Resident&) = delete;
    Resident& operator=(const Resident&) = delete;

    void run(FunctionRef function) {
        std::unique_lock lock(mutex_);
        wanted_ = &function;
        changed_.notify_all();
        changed_.wait(lock, [this] { return wanted_ == nullptr; });
    }

  private:
    void loop() {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [this] { return stopping_ || wanted_ != nullptr; });
            if (stopping_) {
                return;
            }
            (*wanted_)();
            wanted_ = nullptr;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    const FunctionRef* wanted_ = nullptr;
    bool stopping_ = false;
    std::thread thread_;
};

NetNamespace::NetNamespace(const std::string& name) {
    if (name.empty()) {
        return;
    }
    const UniqueFd where = open_namespace(name);
    resident_ = std::make_unique<Resident>();
    run([&] { enter(where, name); });
}

NetNamespace::~NetNamespace() = default;

void NetNamespace::run_inside(FunctionRef function) const { resident_->run(function); }

}  // namespace urnic
