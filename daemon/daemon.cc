#include "daemon/daemon.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>

#include "daemon/assembly.h"
#include "daemon/cm/service.h"
#include "daemon/control/control_server.h"
#include "daemon/control/metrics.h"
#include "daemon/control/page_traces.h"
#include "daemon/control/sysroot.h"
#include "daemon/http/metrics_server.h"
#include "daemon/port_hints.h"
#include "daemon/rights.h"
#include "daemon/run_dir.h"
#include "daemon/state/control_state.h"
#include "daemon/state/equal_guids.h"
#include "daemon/subnet/subnet_service.h"
#include "daemon/syscalls.h"
#include "daemon/verbs/client_state.h"
#include "daemon/watchdog.h"
#include "dataplane/port/eal.h"
#include "dataplane/port/frame_pool.h"
#include "os/log.h"
#include "os/monotonic_clock.h"
#include "os/service_manager.h"
#include "os/timer_fd.h"

namespace urnic::daemon {

namespace {

constexpr std::uint64_t kCounterRefreshNs = 1'000'000'000;

/// Each client costs a handful of descriptors and each completion channel one more.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/// What the configuration leaves out: a quarter of what the daemon has.
void use_descriptor_limit(UserLimits& limits) {
    rlimit limit{};
    if (limits[Resource::kDescriptors] == 0 && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        constexpr rlim_t kMost = 1U << 24U;
        limits[Resource::kDescriptors] = static_cast<std::uint32_t>(std::min(limit.rlim_cur, kMost) / 4);
    }
}

/// What the configuration leaves out: all of the machine's memory to register, a quarter of it for rings.
void use_memory_size(UserLimits& limits) {
    const auto memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                              static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto use = [&limits](ByteResource resource, std::uint64_t most) {
        limits[resource] = limits[resource] == 0 ? most : limits[resource];
    };
    use(ByteResource::kRegistered, memory_bytes);
    use(ByteResource::kRings, memory_bytes / 4);
}

gid_t group_of(const DaemonConfig& config) {
    if (config.socket_group.empty()) {
        return static_cast<gid_t>(-1);
    }
    const group* entry = ::getgrnam(config.socket_group.c_str());
    if (entry == nullptr) {
        throw StartError(
            fmt::format("socket_group \"{}\": there is no such group. Make it (sudo groupadd {}), or name "
                        "another one",
                        config.socket_group, config.socket_group));
    }
    return entry->gr_gid;
}

rte_mempool* start_dpdk(const Config& config, bool verbose) {
    const auto num_ports = static_cast<std::uint32_t>(config.rnics.size());
    const auto num_workers = static_cast<std::uint32_t>(config.daemon.worker_cpus.size());
    dataplane::EalConfig eal;
    eal.hugepages = uses_hugepages(config);
    eal.telemetry_dir = config.daemon.has_telemetry ? config.daemon.run_dir : "";
    eal.extra = config.daemon.eal_args;
    eal.verbose = verbose;
    std::uint32_t index = 0;
    for (const RnicConfig& rnic : config.rnics) {
        if (rnic.port == PortKind::kPci) {
            eal.pci.push_back(rnic.port_device);
        } else if (rnic.port == PortKind::kVdev) {
            eal.vdevs.push_back(rnic.port_device);
        } else if (rnic.port == PortKind::kMemif) {
            remove_stale_memif_socket(rnic);
            eal.vdevs.push_back(memif_arguments(rnic, index));
        }
        ++index;
    }
    std::uint32_t frames =
        dataplane::frames_for(num_ports, num_workers, dataplane::InProcessSwitch::kRingFrames) +
        static_cast<std::uint32_t>(config.networks.size()) * dataplane::EmulatedNetwork::kFrames;
    for (const RnicConfig& rnic : config.rnics) {
        const bool may_read_ahead =
            rnic.port == PortKind::kMemif || rnic.port == PortKind::kPci || rnic.port == PortKind::kVdev;
        if (rnic.pfc.tx_priorities != 0 && may_read_ahead) {
            frames += num_workers * std::min(rnic.pfc.xoff_frames + 1, dataplane::PrefetchPort::kMaxFrames);
        }
    }
    eal.memory_mb = dataplane::packet_memory_mb(frames);
    dataplane::start_eal(eal);
    return dataplane::make_frame_pool("frames", frames);
}

/// Members are destroyed from the last to the first: the socket goes before the workers, and those before
/// what they work on.
class Daemon {
  public:
    Daemon(const Config& config, const DaemonOptions& options);
    ~Daemon();
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    void run(std::span<const int> stop_fds);

  private:
    [[nodiscard]] UniqueFd bind_socket(const DaemonConfig& config, gid_t group) const;
    void give_memif_sockets(const Config& config) const;
    [[nodiscard]] Threads threads();
    void confine(const Config& config);
    void start_workers(const Config& config, rte_mempool* frames);
    void start_watchdog();
    void serve_metrics(const DaemonConfig& config, UniqueFd listener);
    void publish_metrics(std::uint32_t max_qps);
    void log_end() const;

    std::optional<Account> account_;  // that the daemon becomes
    RunDir run_dir_;
    ControlState control_;
    std::optional<dataplane::WorkerHandoff> handoff_;
    std::optional<Assembly> devices_;
    std::optional<CmService> cm_;
    struct WorkerStopper {
        ControlState& control;
        ~WorkerStopper() { control.workers.clear(); }
    } stopper_{control_};
    std::optional<Sysroot> sysroot_;
    std::optional<SubnetService> subnets_;
    std::optional<ControlServer> server_;
    ServiceManager service_manager_;
    TimerFd watchdog_timer_;
    std::optional<Watchdog> watchdog_;
    bool is_filtered_ = false;  // system calls are
    std::uint64_t counters_refreshed_ns_ = 0;
    PageTraces page_traces_{control_};
    std::optional<MetricsServer> metrics_;
    std::shared_ptr<const MetricsText> metrics_text_;
    TimeNs metrics_made_ns_ = 0;
};

/// What `duplicate_guid_of` asks for; the reader of the configuration has found whom it names.
void add_duplicates(std::vector<InfinibandFabric>& fabrics, const std::vector<RnicConfig>& rnics) {
    for (std::uint32_t index = 0; index < rnics.size(); ++index) {
        const auto owner = std::find_if(rnics.begin(), rnics.end(), [&](const RnicConfig& other) {
            return other.name == rnics[index].duplicate_guid_of;
        });
        for (InfinibandFabric& fabric : fabrics) {
            if (owner != rnics.end() && fabric.name == owner->port_device) {
                fabric.duplicates[index] = static_cast<std::uint32_t>(owner - rnics.begin());
                log_warning("{} says the GUIDs of {} to subnet managers, for it has 'duplicate_guid_of'",
                            rnics[index].name, owner->name);
            }
        }
    }
}

/// While the daemon may listen on any port.
UniqueFd bind_http(const DaemonConfig& config) {
    UniqueFd socket;
    if (config.http) {
        if (const int error = listen_http(*config.http, socket); error != 0) {
            throw StartError(fmt::format("http: cannot listen on {} port {}: {}", config.http->host,
                                         config.http->port, std::strerror(error)));
        }
    }
    return socket;
}

/// Of programs that `urnic run --standalone` starts, what it inherits is not meant for the daemon.
ServiceManager service_manager(const DaemonOptions& options) {
    return options.standalone ? ServiceManager() : ServiceManager::from_environment();
}

Daemon::Daemon(const Config& config, const DaemonOptions& options)
    : account_(account_of(config.daemon)),
      run_dir_(config.daemon.run_dir, options.standalone ? 0700 : 0755, account_),
      service_manager_(service_manager(options)) {
    const gid_t group = group_of(config.daemon);
    control_.limits = config.daemon.limits;
    use_descriptor_limit(control_.limits.per_uid);
    use_memory_size(control_.limits.per_uid);
    control_.version = URNIC_VERSION;
    control_.started_ns = clock_now();
    if (const int error = create_memfd("urnic-state", sizeof(abi::DaemonState), Sharing::kReadOnlyForClients,
                                       control_.daemon_state_memfd);
        error != 0) {
        throw StartError(
            fmt::format("cannot make shared memory: {}. It is files of memfd_create() with seals: allow that "
                        "and fcntl(F_ADD_SEALS) in the container's seccomp profile; they need Linux 5.1",
                        std::strerror(error)));
    }
    const auto num_workers = static_cast<std::uint32_t>(config.daemon.worker_cpus.size());
    if (config.daemon.has_telemetry) {
        run_dir_.make_dpdk_dir(account_);
    }
    rte_mempool* frames = start_dpdk(config, options.verbose);
    handoff_.emplace(control_.daemon_state(), num_workers);
    devices_.emplace(config, *handoff_, frames);
    for (dataplane::Device* device : devices_->devices()) {
        control_.devices.push_back(std::make_unique<RnicState>(*device, num_workers));
    }
    UniqueFd socket = bind_socket(config.daemon, group);
    UniqueFd http = bind_http(config.daemon);
    give_memif_sockets(config);
    confine(config);
    cm_.emplace(control_);
    devices_->list_networks(control_);
    devices_->route_groups(control_);
    start_workers(config, frames);
    if (const std::string problem = control_.faults.add(control_, config.faults); !problem.empty()) {
        throw StartError("faults: " + problem);
    }

    const std::vector<dataplane::Device*> devices = devices_->devices();
    for (const std::string& text : equal_guids(devices)) {
        log_warning("{}", text);
    }
    sysroot_.emplace(run_dir_.sysroot_path(),
                     std::vector<const dataplane::Device*>(devices.begin(), devices.end()), num_workers);
    sysroot_->write();
    control_.observers.push_back(&*sysroot_);
    devices_->monitor_links(control_);
    if (std::vector<InfinibandFabric> fabrics = devices_->infiniband_fabrics(control_); !fabrics.empty()) {
        add_duplicates(fabrics, config.rnics);
        try {
            subnets_.emplace(control_, std::move(fabrics), run_dir_.sysroot_path());
        } catch (const std::system_error& error) {
            throw StartError(fmt::format(
                "cannot make the sockets of the umad devices: {}. A shorter run_dir may do", error.what()));
        }
    }
    server_.emplace(control_);
    control_.daemon_state().alive.store(1);
    if (http) {
        serve_metrics(config.daemon, std::move(http));
    }
    if (const int error = server_->listen(std::move(socket)); error != 0) {
        throw StartError(
            fmt::format("cannot listen on {}: {}", run_dir_.socket_path(), std::strerror(error)));
    }
}

/// While the daemon has the right to give it to any group.
UniqueFd Daemon::bind_socket(const DaemonConfig& config, gid_t group) const {
    std::optional<Account> owner = account_;
    if (owner && group != static_cast<gid_t>(-1)) {
        owner->gid = group;
    }
    const ActingAs acting(owner ? &*owner : nullptr);
    UniqueFd socket;
    const std::string path = run_dir_.socket_path();
    if (const int error = ControlServer::bind(path, config.socket_mode, group, socket); error != 0) {
        throw StartError(fmt::format("cannot listen on {}: {}{}", path, std::strerror(error),
                                     config.socket_group.empty()
                                         ? ""
                                         : ". Only root, and members of it, may give it to the group " +
                                               config.socket_group + " (socket_group)"));
    }
    return socket;
}

/// The other daemon, which is to connect, is of the same user.
void Daemon::give_memif_sockets(const Config& config) const {
    for (const RnicConfig& rnic : config.rnics) {
        if (account_ && rnic.port == PortKind::kMemif && rnic.is_memif_server) {
            give_memif_socket(rnic, *account_);
        }
    }
}

/// Before the workers are there.
Threads Daemon::threads() {
    Threads threads;
    threads.that_open = [this](FunctionRef function) {
        function();
        devices_->run_on_port_threads(function);
    };
    threads.others = [this](FunctionRef function) {
        control_.disposer.call(function);
        if (!dataplane::run_on_eal_thread(function)) {
            log_warning("DPDK's thread keeps the rights that urnicd was started with");
        }
        if (!dataplane::run_on_telemetry_threads(function)) {
            log_warning("DPDK's telemetry keeps the rights that urnicd was started with");
        }
    };
    return threads;
}

/// From here on it can do what serving takes, and no more.
void Daemon::confine(const Config& config) {
    give_up_rights(needed_capabilities(config, lift_locked_memory_limit()), account_, threads());
    is_filtered_ =
        has_syscall_filters() && config.daemon.seccomp.value_or(true) && filter_control_calls(config);
}

void Daemon::serve_metrics(const DaemonConfig& config, UniqueFd listener) {
    try {
        metrics_.emplace(std::move(listener), config.http_traces);
    } catch (const std::runtime_error& error) {
        throw StartError(error.what());
    }
    control_.event_loop.add(metrics_->wanted_fd(),
                            [this, max_qps = config.http_qps] { publish_metrics(max_qps); });
    log_info("metrics at http://{}:{}/metrics", config.http->host, config.http->port);
}

/// However many ask, the text is made once a second.
void Daemon::publish_metrics(std::uint32_t max_qps) {
    const std::shared_ptr<const WantedTraces> wanted = metrics_->take_wanted();
    const TimeNs now = clock_now();
    if (metrics_text_ == nullptr || now - metrics_made_ns_ >= kSecondNs) {
        metrics_text_ =
            std::make_shared<const MetricsText>(metrics_text(control_, server_->clients(), max_qps));
        metrics_made_ns_ = now;
    }
    metrics_->publish(metrics_text_, page_traces_.update(*wanted));
}

void Daemon::start_watchdog() {
    const TimeNs look_ns = watchdog_look_ns(service_manager_.watchdog_ns());
    if (look_ns == 0) {
        return;
    }
    Watchdog::Workers workers;
    workers.number = control_.workers.size();
    workers.last_round = [this](std::size_t worker) { return control_.workers[worker]->last_round(); };
    workers.wake = [this](std::size_t worker) {
        handoff_->wakeup().wake(static_cast<std::uint32_t>(worker));
    };
    watchdog_.emplace(std::move(workers), [this] { service_manager_.tell("WATCHDOG=1"); });
    watchdog_timer_.set_after(look_ns);
    control_.event_loop.add(watchdog_timer_.fd(), [this, look_ns] {
        watchdog_timer_.acknowledge();
        watchdog_timer_.set_after(look_ns);
        watchdog_->look(clock_now());
    });
}

Daemon::~Daemon() { control_.daemon_state().alive.store(0); }

void Daemon::start_workers(const Config& config, rte_mempool* frames) {
    const std::vector<int>& cpus = config.daemon.worker_cpus;
    dataplane::WorkerConfig worker;
    worker.num_workers = static_cast<std::uint32_t>(cpus.size());
    worker.state = &control_.daemon_state();
    worker.devices = devices_->devices();
    worker.handoff = &*handoff_;
    worker.frames = frames;
    worker.may_spin = config.daemon.has_dedicated_cores;
    worker.on_thread_start = [this, &config] {
        keep_capabilities(0);
        if (is_filtered_) {
            filter_worker_calls(config);
        }
    };
    control_.worker_cpus = cpus;
    control_.worker_qps.assign(cpus.size(), 0);
    for (const int cpu : cpus) {
        worker.cpu = cpu;
        control_.workers.push_back(std::make_unique<dataplane::Worker>(worker));
        control_.workers.back()->start();
        ++worker.index;
    }
}

void Daemon::run(std::span<const int> stop_fds) {
    start_watchdog();
    service_manager_.tell("READY=1");
    server_->run(stop_fds, [this] {
        const std::uint64_t now_ns = clock_now();
        if (now_ns - counters_refreshed_ns_ >= kCounterRefreshNs) {
            counters_refreshed_ns_ = now_ns;
            devices_->log_refusals();
            try {
                sysroot_->refresh_counters();
            } catch (const std::bad_alloc&) {
                log_warning("no memory: the counters below {} stay as they are for now",
                            run_dir_.sysroot_path());
            }
        }
    });
    service_manager_.tell("STOPPING=1");
    log_end();
}

/// Whoever restarts or upgrades the daemon may not know who uses it.
void Daemon::log_end() const {
    const std::vector<const ClientState*> clients = server_->clients();
    if (clients.empty()) {
        log_info("ending");
        return;
    }
    constexpr std::size_t kMostNames = 8;
    std::string names;
    for (const ClientState* client : std::span(clients).first(std::min(clients.size(), kMostNames))) {
        names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", client->program, client->pid);
    }
    if (clients.size() > kMostNames) {
        names += fmt::format(" and {} more", clients.size() - kMostNames);
    }
    log_info("ending: {} program{} {} RNICs and {} IBV_EVENT_DEVICE_FATAL: {}", clients.size(),
             clients.size() == 1 ? "" : "s", clients.size() == 1 ? "loses its" : "lose their",
             clients.size() == 1 ? "gets" : "get", names);
}

}  // namespace

void serve(const Config& config, const DaemonOptions& options, std::span<const int> stop_fds) {
    // What is in the run directory is for other users' programs; what must not be read by them says so
    // itself.
    ::umask(022);
    raise_descriptor_limit();
    log_verbosely() = options.verbose;
    Daemon daemon(config, options);
    std::string names;
    for (const RnicConfig& rnic : config.rnics) {
        names += (names.empty() ? "" : ", ") + rnic.name;
    }
    log_info("serving {} at {}/control.sock", names, config.daemon.run_dir);
    if (options.ready_fd >= 0) {
        const UniqueFd ready(options.ready_fd);
        (void)!::write(ready.get(), "r", 1);
    }
    daemon.run(stop_fds);
}

}  // namespace urnic::daemon
