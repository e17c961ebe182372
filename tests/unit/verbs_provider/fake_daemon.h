// The daemon's end of the control protocol for tests of the provider: it answers every request, keeps the
// rings, and lets the test play the worker. No RNIC behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "abi/control.h"
#include "rnic/queue/completion_queue.h"
#include "rnic/queue/work_queue.h"

namespace urnic::test {

/// Shared memory as the daemon gives it to a client: the object begins one page into the file.
class SharedPart {
  public:
    static constexpr std::size_t kOffset = 4096;
    explicit SharedPart(std::size_t bytes, std::size_t offset = kOffset);
    SharedPart(const SharedPart&) = delete;
    SharedPart& operator=(const SharedPart&) = delete;
    ~SharedPart();
    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] std::byte* data() const { return data_ + offset_; }

  private:
    std::size_t bytes_;
    std::size_t offset_;
    int fd_ = -1;
    std::byte* data_ = nullptr;
};

struct FakeCq {
    std::vector<std::unique_ptr<SharedPart>> memory;  // the last is in use; resizing adds one
    std::unique_ptr<CompletionQueue> queue;
    std::uint32_t channel = 0;
    std::uint64_t user_handle = 0;
    std::uint32_t async_events = 0;
    std::uint32_t completion_events = 0;
};

struct FakeQp {
    std::unique_ptr<SharedPart> memory;
    SendQueue sq;
    RecvQueue rq;
    std::uint32_t worker = 0;
    std::uint32_t slot = 0;
    std::uint64_t user_handle = 0;
    std::uint32_t async_events = 0;
    abi::QpAttr attr{};
};

struct FakeSrq {
    std::vector<std::unique_ptr<SharedPart>> memory;  // the last is in use; resizing adds one
    std::uint64_t user_handle = 0;
};

class FakeDaemon {
  public:
    static constexpr std::uint32_t kWorkers = 2;
    static constexpr std::uint32_t kMaxSge = 4;
    static constexpr std::uint32_t kMaxInline = 128;
    static constexpr std::uint32_t kQpNum = 0x20'0011;

    /// Listens on URNIC_RUN_DIR/control.sock.
    FakeDaemon();
    FakeDaemon(const FakeDaemon&) = delete;
    FakeDaemon& operator=(const FakeDaemon&) = delete;
    ~FakeDaemon() { die(); }

    /// As kill -9 would: every socket is closed.
    void die();

    // What the test plays.
    void complete(const Completion& completion, std::uint32_t worker = 0, std::uint64_t timestamp_ns = 0);
    /// Wakes threads that sleep in a poll of the CQ; which they were (abi::CqHeader::sleepers).
    std::uint32_t wake_sleepers();
    /// Tells the CQ's channel if the application asked for it; true if it had.
    bool notify(std::uint32_t worker = 0);
    void send_async(AsyncEventType type, std::uint64_t element);
    /// Into the channel of the first CQ, whatever it asked for.
    void send_completion_event(std::uint64_t element);
    [[nodiscard]] bool doorbell_rang(const FakeQp& qp);
    [[nodiscard]] std::uint64_t wakeups(std::uint32_t worker);
    void set_sleeping(std::uint32_t worker, bool sleeping);

    // What the test looks at; the provider must not be inside a call meanwhile.
    FakeCq& cq() { return cqs_.begin()->second; }
    FakeQp& qp() { return qps_.begin()->second; }
    FakeSrq& srq() { return srqs_.begin()->second; }
    [[nodiscard]] std::size_t object_count() const {
        return cqs_.size() + qps_.size() + channels_.size() + srqs_.size() + dms_.size();
    }
    std::uint32_t version = abi::kAbiVersion;
    abi::RegMrRequest last_reg_mr{};
    abi::CreateAhRequest last_create_ah{};
    abi::CreateCqRequest last_create_cq{};
    abi::ResizeCqRequest last_resize_cq{};
    abi::ModifyCqRequest last_modify_cq{};
    std::atomic<int> clients{0};
    /// Answered in place of success, once, to the next request of any kind but Hello.
    std::atomic<int> next_error{0};
    /// A reply as it is about to be sent.
    struct Sent {
        std::byte* data;  // room for kMaxMessageBytes
        std::size_t& length;
        std::vector<int>& fds;
        std::vector<int>& own;  // those to be closed then

        [[nodiscard]] abi::ReplyHeader& header() const { return *reinterpret_cast<abi::ReplyHeader*>(data); }
        void replace_fd(std::size_t i, int fd) const {
            fds.at(i) = fd;
            own.push_back(fd);
        }
    };
    /// Changes any reply. Set while no request is under way.
    std::function<void(abi::Op, Sent&)> spoil;
    /// Change what is answered to CreateSrq and ModifySrq, and to AllocDm.
    std::function<void(abi::SrqReply&)> spoil_srq;
    std::function<void(abi::DmReply&)> spoil_dm;
    /// Answered to ImportDevice, and what was given back.
    std::string imported_name;
    bool imports_with_event_socket = true;
    std::atomic<int> contexts_closed{0};
    std::atomic<int> pds_ended{0};

  private:
    struct Reply;
    struct Pipe {
        int write_fd = -1;
    };
    void accept_clients();
    void serve(int socket);
    void answer(const std::byte* request, Reply& reply);
    void answer_rare(abi::Op op, const std::byte* request, Reply& reply);
    void hello(const abi::HelloRequest& request, Reply& reply);
    void open_device(Reply& reply);
    void import_device(Reply& reply);
    void create_channel(Reply& reply);
    void create_cq(const abi::CreateCqRequest& request, Reply& reply);
    void resize_cq(const abi::ResizeCqRequest& request, Reply& reply);
    void create_qp(const abi::CreateQpRequest& request, Reply& reply);
    void make_srq_memory(std::uint32_t handle, std::uint32_t max_wr, Reply& reply);
    void alloc_dm(const abi::AllocDmRequest& request, Reply& reply);
    void modify_qp(const abi::ModifyQpRequest& request);
    void destroy(abi::Op op, std::uint32_t handle, Reply& reply);

    std::string path_;
    int listen_fd_ = -1;
    std::mutex mutex_;
    bool stopping_ = false;
    std::vector<int> sockets_;
    std::vector<std::thread> threads_;
    SharedPart state_{sizeof(abi::DaemonState), 0};
    SharedPart bells_{abi::doorbell_bytes(kWorkers), 0};
    abi::DaemonState* daemon_state_ = reinterpret_cast<abi::DaemonState*>(state_.data());
    abi::WorkerDoorbell* doorbells_ = reinterpret_cast<abi::WorkerDoorbell*>(bells_.data());
    int wake_fds_[kWorkers];
    int event_fd_ = -1;
    std::uint32_t next_handle_ = 1;
    std::uint32_t client_id_ = 0;
    std::map<std::uint32_t, Pipe> channels_;
    std::map<std::uint32_t, FakeCq> cqs_;
    std::map<std::uint32_t, FakeQp> qps_;
    std::map<std::uint32_t, FakeSrq> srqs_;
    std::map<std::uint32_t, std::unique_ptr<SharedPart>> dms_;
};

}  // namespace urnic::test
