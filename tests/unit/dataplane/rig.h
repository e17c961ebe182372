// RNICs on the in-process wire inside the test's own process: workers, devices, and QPs and CQs whose other
// end (the application's) the test plays, in plain memory.
#pragma once

#include <sys/eventfd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/queues.h"
#include "dataplane/handoff/mad_inbox.h"
#include "dataplane/handoff/worker_handoff.h"
#include "dataplane/wire/in_process_switch.h"
#include "dataplane/worker/client_doorbells.h"
#include "dataplane/worker/worker.h"
#include "tests/sim/rings.h"

namespace urnic::dataplane::rig {

/// Starts the EAL once for the process.
void start_eal_once();
/// One pool for all the tests of the process.
rte_mempool* frame_pool();

/// The test's thread does what a worker would (Rig::call()).
inline thread_local bool is_worker = false;

/// Zeroed memory, aligned as mmap would.
class PageMemory {
  public:
    explicit PageMemory(std::size_t bytes);
    [[nodiscard]] std::byte* data() const { return memory_.get(); }
    [[nodiscard]] std::size_t size() const { return bytes_; }

  private:
    std::size_t bytes_;
    std::unique_ptr<std::byte, void (*)(void*)> memory_;
};

/// Waits for `condition`, patiently (the machine may be busy); false after 60 s, or after a tenth of a second
/// in a test that has waited in vain already.
bool wait_for(const std::function<bool()>& condition);

/// A CQ with the application's end.
class TestCq {
  public:
    TestCq(std::uint32_t num_workers, std::uint32_t entries);
    [[nodiscard]] NotifyingCq& cq() { return cq_; }
    /// The next completion of any worker.
    [[nodiscard]] std::optional<Completion> poll();
    /// Polls until there is one, as long as wait_for() does.
    [[nodiscard]] std::optional<Completion> wait();
    void arm(std::uint32_t value);
    /// Threads that sleep in a poll.
    [[nodiscard]] std::atomic<std::uint32_t>& sleepers() { return header().sleepers; }

  private:
    [[nodiscard]] abi::CqHeader& header() { return *reinterpret_cast<abi::CqHeader*>(memory_.data()); }

    std::uint32_t num_workers_;
    std::uint32_t entries_;
    std::uint32_t next_ring_ = 0;
    PageMemory memory_;
    NotifyingCq cq_;
};

class Rig;

/// One application: doorbells and eventfds. Outlives its QPs.
class TestClient {
  public:
    explicit TestClient(Rig& rig);
    ~TestClient();
    TestClient(const TestClient&) = delete;
    TestClient& operator=(const TestClient&) = delete;

    [[nodiscard]] ClientDoorbells& on_worker(std::uint32_t worker) { return *on_worker_[worker]; }
    [[nodiscard]] abi::WorkerDoorbell& doorbell(std::uint32_t worker);
    [[nodiscard]] int wake_fd(std::uint32_t worker) const { return fds_[worker]; }
    /// As the provider rings.
    void ring(std::uint32_t worker, std::uint32_t slot);
    void wake(std::uint32_t worker);

  private:
    Rig& rig_;
    PageMemory doorbells_;
    std::vector<int> fds_;
    std::vector<UserShare> users_;  // by worker; each client is of another user
    std::vector<std::unique_ptr<ClientDoorbells>> on_worker_;
};

using sim::SendRequest;

/// A QP with the application's end.
class TestQp {
  public:
    TestQp(Rig& rig, TestClient& client, std::uint32_t device, std::uint32_t qp_num,
           std::uint32_t doorbell_slot, TestCq& cq, QpType type = QpType::kRc);
    ~TestQp();
    TestQp(const TestQp&) = delete;
    TestQp& operator=(const TestQp&) = delete;

    [[nodiscard]] std::uint32_t qp_num() const { return slot_.qp->qp_num(); }
    [[nodiscard]] std::uint32_t worker() const { return worker_; }
    [[nodiscard]] QpSlot& slot() { return slot_; }
    void post_send(const SendRequest& request, bool ring = true);
    void post_recv(std::uint64_t wr_id, const std::vector<abi::Sge>& sges) { rq_.post(wr_id, sges); }
    /// RESET to RTS toward `peer`, with seven retries. Returns the errno of the step that failed, or 0. An
    /// ACK timeout of 4 s (20) waits for a worker that gets no processor; who has packets dropped for good
    /// may choose less.
    [[nodiscard]] int connect(TestQp& peer, std::uint8_t mtu = 5, std::uint8_t timeout = 20);
    [[nodiscard]] int modify(const abi::QpAttr& attr);
    /// UD: RESET to RTS.
    [[nodiscard]] int start_datagrams(std::uint32_t qkey);

    static constexpr std::uint32_t kEntries = 128;
    static constexpr std::uint32_t kMaxSge = 4;

  private:
    [[nodiscard]] wire::Path path_to(const TestQp& peer) const;

    Rig& rig_;
    TestClient& client_;
    std::uint32_t device_;
    std::uint32_t worker_;
    QpType type_;
    sim::SendRing sq_{kEntries, kMaxSge, 256};
    sim::RecvRing rq_{kEntries, kMaxSge};
    QpSlot slot_;
};

struct RigOptions {
    std::uint32_t num_workers = 1;
    std::uint32_t num_devices = 2;
    std::vector<int> cpus = {};         // pins worker i to cpus[i] and lets it spin
    bool mads = false;                  // somebody listens to QP1
    std::vector<PfcSettings> pfc = {};  // by device; the rest heed all pauses
    /// Whether packets within a worker need not be frames; by default as $URNIC_RIG_OFFLOAD says (1), unless
    /// `port` makes ports.
    std::optional<bool> offload = std::nullopt;
    /// Called when the switch exists and no device does.
    std::function<void(InProcessSwitch&, WorkerHandoff&)> prepare = {};
    /// Makes the port of a device; by default the switch's.
    std::function<Port*(std::uint32_t device, Port& switch_port)> port = {};
};

class Rig {
  public:
    explicit Rig(const RigOptions& options);
    ~Rig();
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    [[nodiscard]] std::uint32_t num_workers() const { return static_cast<std::uint32_t>(workers_.size()); }
    [[nodiscard]] Worker& worker(std::uint32_t index) { return *workers_[index]; }
    /// Worker::call(). While `function` runs is_worker is true on its thread, which may be the caller's.
    template <typename F>
    void call(std::uint32_t worker, F&& function) {
        workers_[worker]->call([&function] {
            is_worker = true;
            function();
            is_worker = false;
        });
    }
    [[nodiscard]] Device& device(std::uint32_t index) { return *devices_[index]; }
    [[nodiscard]] InProcessSwitch& local_switch() { return *switch_; }
    [[nodiscard]] WorkerHandoff& handoff() { return *handoff_; }
    [[nodiscard]] MadInbox& mads(std::uint32_t device) { return *mads_.at(device); }
    [[nodiscard]] abi::DaemonState& state() { return state_; }
    [[nodiscard]] bool asleep(std::uint32_t worker) const {
        return state_.workers[worker].sleeping.load() != 0;
    }
    [[nodiscard]] std::unique_ptr<TestClient> make_client();
    /// Registers `memory` with every right and returns its key (L_Key and R_Key).
    [[nodiscard]] std::uint32_t register_memory(std::uint32_t device, const PageMemory& memory) {
        return register_memory(device, memory.data(), memory.size());
    }
    [[nodiscard]] std::uint32_t register_memory(std::uint32_t device, std::byte* data, std::size_t bytes);
    /// Sum over the workers.
    [[nodiscard]] std::uint64_t count(std::uint32_t device, Counter Counters::*counter) const;

    static constexpr std::uint32_t kPd = 7;

  private:
    abi::DaemonState state_{};
    std::unique_ptr<WorkerHandoff> handoff_;
    std::unique_ptr<InProcessSwitch> switch_;
    std::vector<std::unique_ptr<MadInbox>> mads_;
    std::vector<std::unique_ptr<Device>> devices_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::uint32_t next_key_random_ = 0x1234567;
};

inline abi::Sge sge(const PageMemory& memory, std::uint32_t offset, std::uint32_t length, std::uint32_t key) {
    return {reinterpret_cast<std::uint64_t>(memory.data()) + offset, length, key};
}

}  // namespace urnic::dataplane::rig
