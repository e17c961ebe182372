// Stands in for dataplane/worker/worker.cc where the control side is tested without the EAL: calls run at
// once on the caller's thread, and what the control side promises a worker is checked.
#include "dataplane/worker/worker.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"
#include "dataplane/worker/client_doorbells.h"
#include "tests/unit/daemon/inline_worker.h"

namespace urnic::dataplane {

namespace {
WorkerRecord record_of_all;

class NoFrames final : public FrameRetainer {
  public:
    [[nodiscard]] void* retain(void* /*frame*/, std::span<const std::byte>& /*payload*/) override {
        return nullptr;
    }
    void release(void* /*frame*/) override {}
};

}  // namespace

WorkerRecord& worker_record() { return record_of_all; }

namespace {
/// A real worker does not allocate; the stand-in's bookkeeping is no part of what a test counts.
template <typename T>
struct MallocAllocator {
    using value_type = T;
    MallocAllocator() = default;
    template <typename U>
    MallocAllocator(const MallocAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)
    T* allocate(std::size_t count) { return static_cast<T*>(std::malloc(count * sizeof(T))); }
    void deallocate(T* at, std::size_t /*count*/) { std::free(at); }
    bool operator==(const MallocAllocator&) const { return true; }
};
}  // namespace

struct Worker::Impl {
    WorkerConfig config;
    NoFrames frames;
    ReorderBufferPool reorder_buffers{frames, 1};
    std::mutex mutex;  // a test may look into a worker beside the server
    bool inside_call = false;
    std::set<const ClientDoorbells*, std::less<>, MallocAllocator<const ClientDoorbells*>> clients;
    std::map<std::uint32_t, QpSlot*, std::less<>, MallocAllocator<std::pair<const std::uint32_t, QpSlot*>>>
        qps;
    std::array<std::shared_ptr<const fault::Plan>, 2> plans;  // by device
    std::array<MulticastTable, 2> multicast;
};

Worker::Worker(const WorkerConfig& config) : impl_(std::make_unique<Impl>()) { impl_->config = config; }
Worker::~Worker() {
    // The control side takes back everything it gave.
    URNIC_CHECK(impl_->clients.empty() && impl_->qps.empty());
}
ReorderBufferPool& Worker::reorder_buffers() { return impl_->reorder_buffers; }
void Worker::start() {}
void Worker::stop() {}

bool Worker::take_long_round(LongRound& round) {
    const auto left = std::exchange(record_of_all.long_round, std::nullopt);
    round = left.value_or(LongRound{});
    return left.has_value();
}
std::uint64_t Worker::last_round() const { return 0; }
std::uint64_t Worker::long_rounds() const { return 0; }
bool Worker::is_observed() const { return false; }

void Worker::call(FunctionRef function) {
    const std::lock_guard lock(impl_->mutex);
    URNIC_CHECK(!impl_->inside_call);
    impl_->inside_call = true;
    ++record_of_all.calls;
    function();
    impl_->inside_call = false;
}

void Worker::use_captures(const PacketCaptures& captures) {
    URNIC_CHECK(impl_->inside_call);
    record_of_all.captures = static_cast<std::uint32_t>(
        std::count_if(captures.begin(), captures.end(), [](const auto* one) { return one != nullptr; }));
}

int Worker::attach_client(ClientDoorbells& client) {
    URNIC_CHECK(impl_->inside_call && client.wake_fd() >= 0);
    if (record_of_all.attach_error != 0) {
        return record_of_all.attach_error;
    }
    URNIC_CHECK(impl_->clients.insert(&client).second);
    return 0;
}

void Worker::detach_client(ClientDoorbells& client) {
    URNIC_CHECK(impl_->inside_call && impl_->clients.erase(&client) == 1);
    for (const auto& [qp_num, slot] : impl_->qps) {
        URNIC_CHECK(slot->client != &client);
    }
}

void Worker::add_qp(QpSlot& slot, QpTablePages& room) {
    const std::uint32_t qp_num = slot.qp->qp_num();
    URNIC_CHECK(impl_->inside_call && (slot.client == nullptr || impl_->clients.count(slot.client) == 1));
    URNIC_CHECK(room.qp_table_page != nullptr && room.doorbell_page != nullptr);
    URNIC_CHECK(qp_num % impl_->config.num_workers == impl_->config.index && qp_num > 1 && qp_num < 0xffffff);
    // The two devices number their QPs apart from each other.
    URNIC_CHECK(impl_->qps.emplace(qp_num + (slot.device->index << 24U), &slot).second);
    ++record_of_all.qps;
}

void Worker::remove_qp(QpSlot& slot) {
    URNIC_CHECK(impl_->inside_call && impl_->qps.erase(slot.qp->qp_num() + (slot.device->index << 24U)) == 1);
    --record_of_all.qps;
}

void Worker::release_cq(NotifyingCq& cq) {
    URNIC_CHECK(impl_->inside_call);
    for (const auto& [qp_num, slot] : impl_->qps) {
        URNIC_CHECK(slot->qp->config().send_cq != &cq && slot->qp->config().recv_cq != &cq);
    }
}

void Worker::catch_up() { URNIC_CHECK(impl_->inside_call); }
void Worker::send_posted(QpSlot& slot) {
    URNIC_CHECK(impl_->inside_call && impl_->qps.count(slot.qp->qp_num() + (slot.device->index << 24U)) == 1);
    ++record_of_all.last_sends;
}

void Worker::swap_faults(std::uint32_t device, std::shared_ptr<const fault::Plan>& plan) {
    URNIC_CHECK(impl_->inside_call && device < 2);
    impl_->plans.at(device).swap(plan);
    record_of_all.plans = static_cast<std::uint32_t>(
        std::count_if(impl_->plans.begin(), impl_->plans.end(), [](const auto& p) { return p != nullptr; }));
}

bool Worker::transmit(std::uint32_t device, const wire::Path& /*path*/, const wire::PacketHeader& /*header*/,
                      std::span<const std::byte> /*bytes*/) {
    return impl_->inside_call && device < 2;
}

bool Worker::transmit_frame(std::uint32_t device, std::span<const std::byte> /*bytes*/) {
    return impl_->inside_call && device < 2;
}

void Worker::refresh_addresses(std::uint32_t device) { URNIC_CHECK(impl_->inside_call && device < 2); }

void Worker::use_congestion(QpSlot& slot, const congestion::Settings& settings) {
    URNIC_CHECK(impl_->inside_call);
    slot.qp->use_congestion_settings(0, &settings);
}

void Worker::set_port(std::uint32_t device, bool up) {
    URNIC_CHECK(impl_->inside_call && device < 2);
    worker_record().ports_down += up ? -1 : 1;
}

MulticastTable& Worker::multicast(std::uint32_t device) {
    URNIC_CHECK(impl_->inside_call);
    return impl_->multicast.at(device);
}

int Worker::modify_qp(QpSlot& slot, const abi::QpAttr& attr, const wire::Path& path) {
    struct NoOutbox final : Outbox {
        [[nodiscard]] std::uint32_t room() const override { return 0; }
        [[nodiscard]] bool transmit(const wire::Path&, const wire::PacketHeader&,
                                    std::span<const MemoryPiece>) override {
            return true;
        }
        [[nodiscard]] bool complete(CompletionQueue&, const Completion&) override { return true; }
        void event(Qp&, AsyncEventType) override {}
    } outbox;
    record_of_all.last_path_is_ipv4 = path.is_ipv4;
    record_of_all.last_path_mac_end = path.bytes[5];
    if (path.length >= 8) {
        const std::size_t udp = path.length - 8U;
        record_of_all.last_path_udp_port =
            static_cast<std::uint16_t>(path.bytes.at(udp) << 8U | path.bytes.at(udp + 1));
    }
    return slot.qp->modify(0, attr, path, outbox);
}

}  // namespace urnic::dataplane
