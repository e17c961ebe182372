#include "dataplane/port/eal.h"

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <semaphore>
#include <system_error>

namespace urnic::dataplane {

namespace {

/// The EAL pins the thread that starts it, and every thread made later would inherit that.
class AffinityKeeper {
  public:
    AffinityKeeper() { known_ = sched_getaffinity(0, sizeof(set_), &set_) == 0; }
    ~AffinityKeeper() {
        if (known_) {
            (void)sched_setaffinity(0, sizeof(set_), &set_);
        }
    }
    AffinityKeeper(const AffinityKeeper&) = delete;
    AffinityKeeper& operator=(const AffinityKeeper&) = delete;
    [[nodiscard]] int first_cpu() const {
        for (int cpu = 0; known_ && cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(cpu, &set_)) {
                return cpu;
            }
        }
        return 0;
    }

  private:
    cpu_set_t set_{};
    bool known_ = false;
};

std::vector<std::string> arguments(const EalConfig& config, int cpu) {
    // Workers are threads of our own: the EAL gets one lcore, on a CPU that we may use at all.
    std::vector<std::string> list = {"urnicd", "--no-shconf", "--lcores=0@" + std::to_string(cpu)};
    list.emplace_back(config.telemetry_dir.empty() ? "--no-telemetry" : "--file-prefix=urnic");
    if (config.hugepages) {
        list.emplace_back("--in-memory");
    } else {
        list.emplace_back("--no-huge");
    }
    list.emplace_back("-m");
    list.push_back(std::to_string(config.memory_mb));
    if (config.pci.empty()) {
        list.emplace_back("--no-pci");
    }
    for (const std::string& address : config.pci) {
        list.emplace_back("-a");
        list.push_back(address);
    }
    for (const std::string& vdev : config.vdevs) {
        list.push_back("--vdev=" + vdev);
    }
    list.insert(list.end(), config.extra.begin(), config.extra.end());
    return list;
}

std::string hint(const EalConfig& config, const std::string& said) {
    // Before anything of memory.
    if (!std::filesystem::is_directory("/sys/module")) {
        return "It looks at /sys/module, which is not there: mount sysfs (mount -t sysfs none /sys). "
               "systemd-nspawn leaves it out of containers with a network of their own: set "
               "SYSTEMD_NSPAWN_API_VFS_WRITABLE=1 for it";
    }
    if (said.find("TELEMETRY: ") != std::string::npos) {
        return "Its telemetry cannot listen in dpdk/urnic/ of the run directory: set a run_dir with a "
               "shorter "
               "path, or leave 'telemetry' out under [daemon]";
    }
    if (!config.vdevs.empty() && said.find("parse device") != std::string::npos) {
        return "Check 'device' of the ports with port = \"vdev\": no driver of DPDK's has that name";
    }
    if (config.hugepages) {
        return "Reserve hugepages (echo " + std::to_string(config.memory_mb / 2 + 1) +
               " > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, as root), run as a user who may "
               "use them, or set hugepages = false under [daemon], which a NIC behind an IOMMU can do with";
    }
    if (!config.pci.empty()) {
        return "Bind the NIC to vfio-pci (dpdk-devbind.py) and run as a user who may open /dev/vfio, or "
               "configure no PCI device";
    }
    return "Check that " + std::to_string(config.memory_mb) + " MB of memory are free (ulimit -v, cgroup)";
}

struct EalCall {
    FunctionRef function;
    std::binary_semaphore done{0};
};

void run_eal_call(void* argument) {
    EalCall& call = *static_cast<EalCall*>(argument);
    call.function();
    call.done.release();
}

/// What the thread that gets the signal runs.
std::atomic<EalCall*> signalled_call{nullptr};

void on_call_signal(int /*number*/) {
    if (EalCall* call = signalled_call.exchange(nullptr); call != nullptr) {
        run_eal_call(call);
    }
}

/// By their names, of which DPDK has changed the beginning.
std::vector<pid_t> telemetry_threads() {
    std::vector<pid_t> threads;
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
        std::ifstream file(task.path() / "comm");
        std::string name;
        (void)std::getline(file, name);
        if (name.starts_with("telemetry-v") || name.starts_with("dpdk-telemet")) {
            threads.push_back(static_cast<pid_t>(std::atoi(task.path().filename().c_str())));
        }
    }
    return threads;
}

struct LogCapture {
    char* text = nullptr;
    std::size_t length = 0;
    FILE* stream = open_memstream(&text, &length);
    LogCapture() = default;
    LogCapture(const LogCapture&) = delete;
    LogCapture& operator=(const LogCapture&) = delete;
    ~LogCapture() {
        if (stream != nullptr) {
            (void)fclose(stream);
        }
        std::free(text);
    }
    [[nodiscard]] std::string take() {
        if (stream == nullptr) {
            return {};
        }
        (void)fflush(stream);
        return {text, length};
    }
};

}  // namespace

void start_eal(const EalConfig& config) {
    AffinityKeeper affinity;
    std::vector<std::string> list = arguments(config, affinity.first_cpu());
    std::vector<char*> argv;
    argv.reserve(list.size() + 1);
    for (std::string& argument : list) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);

    LogCapture log;
    if (!config.verbose && log.stream != nullptr) {
        (void)rte_openlog_stream(log.stream);
    }
    if (!config.telemetry_dir.empty()) {
        // As systemd says it: elsewhere DPDK falls back to /tmp, where everybody could connect.
        (void)setenv("RUNTIME_DIRECTORY", config.telemetry_dir.c_str(), 1);
    }
    const int result = rte_eal_init(static_cast<int>(list.size()), argv.data());
    const int error = rte_errno;
    const std::string said = log.take();
    if (!config.verbose) {
        // For the process's lifetime: drivers log from any thread.
        static FILE* const nowhere = fopen("/dev/null", "we");
        (void)rte_openlog_stream(nowhere);
    }
    if (result < 0) {
        throw SetupError("DPDK's EAL cannot start (" + std::string(rte_strerror(error)) + "). " +
                         hint(config, said) + "." + (said.empty() ? "" : " The EAL said:\n" + said));
    }
}

// The EAL's alarms go off on its interrupt thread.
bool run_on_eal_thread(FunctionRef function) {
    EalCall call{function};
    if (rte_eal_alarm_set(1, run_eal_call, &call) != 0) {
        return false;
    }
    call.done.acquire();
    return true;
}

// They lie in accept(), which continues after the handler.
bool run_on_telemetry_threads(FunctionRef function) {
    constexpr auto kPatience = std::chrono::seconds(10);
    const std::vector<pid_t> threads = telemetry_threads();
    if (threads.empty()) {
        return true;
    }
    const int number = SIGRTMAX - 1;
    struct sigaction action {};
    action.sa_handler = on_call_signal;
    action.sa_flags = SA_RESTART;
    struct sigaction before {};
    bool is_done = sigaction(number, &action, &before) == 0;
    for (const pid_t thread : threads) {
        EalCall call{function};
        signalled_call.store(&call);
        is_done = is_done && syscall(SYS_tgkill, getpid(), thread, number) == 0 &&
                  (call.done.try_acquire_for(kPatience) ||
                   // Too late to take it back: it runs, and ends.
                   (signalled_call.exchange(nullptr) == nullptr && (call.done.acquire(), true)));
        signalled_call.store(nullptr);
    }
    (void)sigaction(number, &before, nullptr);
    return is_done;
}

}  // namespace urnic::dataplane
