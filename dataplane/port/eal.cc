#include "dataplane/port/eal.h"

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <semaphore>

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
    std::vector<std::string> list = {"urnicd", "--no-shconf", "--no-telemetry",
                                     "--lcores=0@" + std::to_string(cpu)};
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

std::string remedy(const EalConfig& config, const std::string& said) {
    // Before anything of memory.
    if (!std::filesystem::is_directory("/sys/module")) {
        return "It looks at /sys/module, which is not there: mount sysfs (mount -t sysfs none /sys). "
               "systemd-nspawn leaves it out of containers with a network of their own: set "
               "SYSTEMD_NSPAWN_API_VFS_WRITABLE=1 for it";
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
                         remedy(config, said) + "." + (said.empty() ? "" : " The EAL said:\n" + said));
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

}  // namespace urnic::dataplane
