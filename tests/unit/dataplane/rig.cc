#include "tests/unit/dataplane/rig.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "dataplane/port/eal.h"
#include "dataplane/port/frame_pool.h"
#include "rnic/wire/frame.h"
#include "tests/support/make_qp.h"

namespace urnic::dataplane::rig {

namespace {

constexpr std::uint32_t kPoolFrames = 4096;

wire::Gid ipv4_gid(std::uint32_t device) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, static_cast<std::uint8_t>(device + 1)};
}

/// The test that has waited in vain; any thread of it may have.
std::atomic<const testing::TestInfo*> gave_up{nullptr};

std::chrono::milliseconds patience() {
    const testing::TestInfo* running = testing::UnitTest::GetInstance()->current_test_info();
    return running != nullptr && running == gave_up.load() ? std::chrono::milliseconds(100)
                                                           : std::chrono::minutes(1);
}

bool offloads(const RigOptions& options) {
    const char* const asked = std::getenv("URNIC_RIG_OFFLOAD");
    return options.offload.value_or(asked != nullptr && std::string_view(asked) == "1" && !options.port);
}

wire::Mac mac_of(std::uint32_t device) { return {2, 0, 0, 0, 0, static_cast<std::uint8_t>(device + 1)}; }

}  // namespace

void start_eal_once() {
    static const bool started = [] {
        EalConfig config;
        config.memory_mb = packet_memory_mb(kPoolFrames);
        config.vdevs = {"net_null0", "net_null1", "net_ring0"};
        start_eal(config);
        return true;
    }();
    URNIC_CHECK(started);
}

rte_mempool* frame_pool() {
    start_eal_once();
    static rte_mempool* const pool = make_frame_pool("test_frames", kPoolFrames);
    return pool;
}

PageMemory::PageMemory(std::size_t bytes)
    : bytes_(abi::round_up(bytes, 4096)),
      memory_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes_)), &std::free) {
    std::memset(memory_.get(), 0, bytes_);
}

bool wait_for(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + patience();
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) {
            gave_up.store(testing::UnitTest::GetInstance()->current_test_info());
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

TestCq::TestCq(std::uint32_t num_workers, std::uint32_t entries)
    : num_workers_(num_workers),
      entries_(entries),
      memory_(abi::cq_bytes(num_workers, entries)),
      cq_(memory_.data(), entries) {}

std::optional<Completion> TestCq::poll() {
    for (std::uint32_t tried = 0; tried < num_workers_; ++tried) {
        const std::uint32_t ring = next_ring_++ % num_workers_;
        std::atomic<std::uint32_t>& taken = header().consumer[ring].index;
        const std::uint32_t index = taken.load(std::memory_order_relaxed);
        const auto* cqe =
            reinterpret_cast<const abi::Cqe*>(memory_.data() + abi::cq_ring_offset(ring, entries_)) +
            (index & (entries_ - 1));
        if (cqe->seq.load(std::memory_order_acquire) != index + 1) {
            continue;
        }
        Completion completion;
        completion.wr_id = cqe->wr_id;
        completion.qp_num = cqe->qp_num;
        completion.wqe_index = cqe->wqe_index;
        completion.byte_len = cqe->byte_len;
        completion.imm_or_rkey = cqe->imm_or_rkey;
        completion.status = static_cast<WcStatus>(cqe->status);
        completion.opcode = static_cast<WcOpcode>(cqe->opcode);
        completion.wc_flags = cqe->wc_flags;
        completion.is_recv = cqe->is_recv != 0;
        taken.store(index + 1, std::memory_order_release);
        return completion;
    }
    return std::nullopt;
}

std::optional<Completion> TestCq::wait() {
    std::optional<Completion> completion;
    (void)wait_for([&] { return (completion = poll()).has_value(); });
    return completion;
}

void TestCq::arm(std::uint32_t value) {
    header().arm.store(value, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

TestClient::TestClient(Rig& rig)
    : rig_(rig), doorbells_(abi::doorbell_bytes(rig.num_workers())), users_(rig.num_workers()) {
    for (std::uint32_t i = 0; i < rig.num_workers(); ++i) {
        fds_.push_back(eventfd(0, EFD_CLOEXEC));
        on_worker_.push_back(std::make_unique<ClientDoorbells>(&doorbell(i), fds_[i], users_[i]));
        int error = 0;
        rig.call(i, [&] { error = rig.worker(i).attach_client(*on_worker_[i]); });
        URNIC_CHECK(error == 0);
    }
}

TestClient::~TestClient() {
    for (std::uint32_t i = 0; i < rig_.num_workers(); ++i) {
        rig_.call(i, [&] { rig_.worker(i).detach_client(*on_worker_[i]); });
        close(fds_[i]);
    }
}

abi::WorkerDoorbell& TestClient::doorbell(std::uint32_t worker) {
    return reinterpret_cast<abi::WorkerDoorbell*>(doorbells_.data())[worker];
}

void TestClient::ring(std::uint32_t worker, std::uint32_t slot) {
    abi::WorkerDoorbell& bell = doorbell(worker);
    const std::uint32_t word = slot / 64;
    if (bell.words[word].fetch_or(std::uint64_t{1} << (slot % 64)) == 0) {
        bell.summary[word / 64].fetch_or(std::uint64_t{1} << (word % 64));
    }
    wake(worker);
}

void TestClient::wake(std::uint32_t worker) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (rig_.state().workers[worker].sleeping.load(std::memory_order_relaxed) != 0) {
        (void)eventfd_write(fds_[worker], 1);
    }
}

TestQp::TestQp(Rig& rig, TestClient& client, std::uint32_t device, std::uint32_t qp_num,
               std::uint32_t doorbell_slot, TestCq& cq, QpType type)
    : rig_(rig), client_(client), device_(device), worker_(rig.handoff().worker_of(qp_num)), type_(type) {
    QpConfig config;
    config.qp_num = qp_num;
    config.pd = Rig::kPd;
    config.sq = sq_.queue();
    config.rq = rq_.queue();
    config.send_cq = &cq.cq();
    config.recv_cq = &cq.cq();
    config.keys = &rig.device(device).keys;
    config.counters = &rig.device(device).counters[worker_];
    config.reorder_buffers = &rig.worker(worker_).reorder_buffers();
    config.handles = &rig.device(device).handles;
    slot_.qp = make_qp(type, config);
    slot_.device = &rig.device(device);
    slot_.client = &client.on_worker(worker_);
    slot_.doorbell_slot = doorbell_slot;
    QpTablePages room;
    rig_.call(worker_, [&] { rig_.worker(worker_).add_qp(slot_, room); });
}

TestQp::~TestQp() {
    rig_.call(worker_, [this] { rig_.worker(worker_).remove_qp(slot_); });
}

void TestQp::post_send(const SendRequest& request, bool ring) {
    sq_.post(request, type_);
    if (ring) {
        client_.ring(worker_, slot_.doorbell_slot);
    }
}

wire::Path TestQp::path_to(const TestQp& peer) const {
    wire::PathSpec spec;
    spec.src_mac = mac_of(device_);
    spec.dst_mac = rig_.local_switch().resolve(ipv4_gid(peer.device_)).value();
    spec.src_gid = ipv4_gid(device_);
    spec.dst_gid = ipv4_gid(peer.device_);
    return wire::make_path(spec);
}

int TestQp::modify(const abi::QpAttr& attr) {
    int error = 0;
    rig_.call(worker_, [&] { error = rig_.worker(worker_).modify_qp(slot_, attr, {}); });
    return error;
}

int TestQp::start_datagrams(std::uint32_t qkey) {
    abi::QpAttr attr{};
    attr.port_num = 1;
    attr.qkey = qkey;
    const std::pair<QpState, std::uint32_t> steps[] = {
        {QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey},
        {QpState::kRtr, 0},
        {QpState::kRts, kQpAttrSqPsn}};
    for (const auto& [state, mask] : steps) {
        attr.state = state;
        attr.mask = kQpAttrState | mask;
        if (const int error = modify(attr); error != 0) {
            return error;
        }
    }
    return 0;
}

int TestQp::connect(TestQp& peer, std::uint8_t mtu, std::uint8_t timeout) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
    attr.state = QpState::kInit;
    attr.port_num = 1;
    attr.access_flags = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
    int error = modify(attr);
    if (error != 0) {
        return error;
    }
    attr.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
    attr.state = QpState::kRtr;
    attr.path_mtu = mtu;
    attr.dest_qp_num = peer.qp_num();
    attr.rq_psn = 0xffff00;  // wraps during the test
    attr.max_dest_rd_atomic = 8;
    attr.min_rnr_timer = 1;
    attr.av.is_global = 1;
    attr.av.port_num = 1;
    const wire::Gid gid = ipv4_gid(peer.device_);
    std::memcpy(attr.av.dgid, gid.data(), gid.size());
    const wire::Path path = path_to(peer);
    rig_.call(worker_, [&] { error = rig_.worker(worker_).modify_qp(slot_, attr, path); });
    if (error != 0) {
        return error;
    }
    attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn |
                kQpAttrMaxQpRdAtomic;
    attr.state = QpState::kRts;
    attr.timeout = timeout;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.sq_psn = 0xffff00;
    attr.max_rd_atomic = 8;
    return modify(attr);
}

Rig::Rig(const RigOptions& options) {
    rte_mempool* const pool = frame_pool();
    handoff_ = std::make_unique<WorkerHandoff>(state_, options.num_workers);
    std::vector<InProcessSwitch::PortSpec> ports;
    for (std::uint32_t i = 0; i < options.num_devices; ++i) {
        ports.push_back({mac_of(i), {ipv4_gid(i)}});
    }
    switch_ = std::make_unique<InProcessSwitch>(ports, *handoff_);
    if (options.prepare) {
        options.prepare(*switch_, *handoff_);
    }
    std::vector<Device*> devices;
    for (std::uint32_t i = 0; i < options.num_devices; ++i) {
        auto device = std::make_unique<Device>();
        device->name = "urnic" + std::to_string(i);
        device->index = i;
        device->mac = mac_of(i);
        device->pfc = i < options.pfc.size() ? options.pfc[i] : PfcSettings{.rx_priorities = 0xff};
        device->gids[1] = ipv4_gid(i);
        device->port = options.port ? options.port(i, switch_->port(i)) : &switch_->port(i);
        device->neighbours = switch_.get();
        device->local_offload = offloads(options) ? LocalOffload::kOn : LocalOffload::kOff;
        if (options.mads) {
            mads_.push_back(std::make_unique<MadInbox>());
            device->mads = mads_.back().get();
        }
        devices.push_back(device.get());
        devices_.push_back(std::move(device));
    }
    for (std::uint32_t i = 0; i < options.num_workers; ++i) {
        WorkerConfig config;
        config.index = i;
        config.num_workers = options.num_workers;
        config.cpu = i < options.cpus.size() ? options.cpus[i] : -1;
        config.may_spin = config.cpu >= 0;
        config.state = &state_;
        config.devices = devices;
        config.handoff = handoff_.get();
        config.frames = pool;
        workers_.push_back(std::make_unique<Worker>(config));
    }
    for (const auto& worker : workers_) {
        worker->start();
    }
}

Rig::~Rig() {
    for (const auto& worker : workers_) {
        worker->stop();
    }
}

std::unique_ptr<TestClient> Rig::make_client() { return std::make_unique<TestClient>(*this); }

std::uint32_t Rig::register_memory(std::uint32_t device, std::byte* data, std::size_t bytes) {
    MemoryRegion region;
    region.iova = reinterpret_cast<std::uint64_t>(data);
    region.va = region.iova;
    region.length_bytes = bytes;
    region.direct = data;
    region.pd = kPd;
    region.access = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
    return devices_[device]->keys.add(region, next_key_random_ += 0x9e3779b9U);
}

std::uint64_t Rig::count(std::uint32_t device, Counter Counters::*counter) const {
    std::uint64_t sum = 0;
    for (const Counters& counters : devices_[device]->counters) {
        sum += (counters.*counter).value();
    }
    return sum;
}

}  // namespace urnic::dataplane::rig
