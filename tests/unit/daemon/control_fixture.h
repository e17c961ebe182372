// A control server on a socket of its own, served by a thread, and a client that speaks the protocol, well or
// badly.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "abi/control.h"
#include "daemon/control/control_server.h"
#include "daemon/state/control_state.h"
#include "tests/unit/daemon/inline_worker.h"

namespace urnic::daemon {

/// What came back: the bytes and the descriptors.
struct Answer {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
    bool closed = false;  // the server hung up

    [[nodiscard]] abi::ReplyHeader as_header() const;
    [[nodiscard]] int error() const { return as_header().error; }
    template <typename T>
    [[nodiscard]] T as() const {
        T body{};
        EXPECT_EQ(bytes.size(), sizeof(T));
        std::memcpy(&body, bytes.data(), std::min(bytes.size(), sizeof(T)));
        return body;
    }
};

class TestClient {
  public:
    explicit TestClient(const std::string& path);
    /// Takes a connection made elsewhere.
    explicit TestClient(UniqueFd socket) : socket_(std::move(socket)) {}

    /// Sends the bytes as they are.
    [[nodiscard]] bool send(const void* data, std::size_t bytes, const std::vector<int>& fds = {}) const;
    /// Waits for a reply or the end.
    [[nodiscard]] Answer receive() const;

    /// Fills in a correct header and waits for the reply.
    template <typename T>
    Answer ask(abi::Op op, T request, const std::vector<int>& fds = {}) const {
        request.header = {abi::kControlMagic, op, ++cookie_, sizeof(T)};
        EXPECT_TRUE(send(&request, sizeof request, fds));
        Answer answer = receive();
        if (!answer.closed) {
            EXPECT_EQ(answer.as_header().cookie, cookie_);
            EXPECT_EQ(answer.as_header().op, op);
        }
        return answer;
    }
    [[nodiscard]] int socket() const { return socket_.get(); }
    void close() { socket_.reset(); }

    // Shorthands; each expects success.
    Answer hello() const;
    std::uint32_t open(const char* name = "urnic0");
    std::uint32_t pd(std::uint32_t context) const;
    std::uint32_t cq(std::uint32_t context, std::uint32_t entries = 16) const;
    abi::CreateQpReply qp(std::uint32_t pd, std::uint32_t cq) const;
    /// The error of an operation on a handle.
    [[nodiscard]] int on_handle(abi::Op op, std::uint32_t handle) const;
    void attach_memory();
    [[nodiscard]] int memory_file() const { return memory_file_.get(); }

    std::vector<UniqueFd> async_fds;
    std::vector<UniqueFd> tokens;  // the command fd of each context

  private:
    UniqueFd socket_;
    UniqueFd memory_file_;
    mutable std::uint32_t cookie_ = 0;
};

/// A QP request that is within all limits.
abi::CreateQpRequest qp_request(std::uint32_t pd, std::uint32_t cq);
/// An address vector that names the second device.
abi::CreateAhRequest ah_request(std::uint32_t pd);
/// A memory file as a client should make it, with other seals or another size if wanted.
UniqueFd make_memory_file(int seals, std::uint64_t bytes = abi::kMemoryFileBytes);

/// Called by the server for each QP that it makes.
inline std::atomic<const std::function<void(const QpConfig&)>*> make_qp_hook{nullptr};

class ControlTest : public testing::Test {
  public:
    ~ControlTest() override;

  protected:
    static constexpr std::uint32_t kWorkers = 3;

    explicit ControlTest(ControlServer::Options options = {}, ClientLimits limits = {});

    [[nodiscard]] std::string socket_path() const { return dir_ + "/control.sock"; }
    [[nodiscard]] TestClient connect() const { return TestClient(socket_path()); }
    [[nodiscard]] TestClient client() const {
        TestClient client = connect();
        EXPECT_EQ(client.hello().error(), 0);
        return client;
    }
    /// Returns once the server has no connection but those of clients still here.
    void wait_for_connections(std::size_t count) const;
    [[nodiscard]] std::size_t connections() const { return connections_; }
    /// How often the server was awake.
    [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
    /// Returns whether nothing that a client can own is left on any device.
    [[nodiscard]] bool nothing_is_left();

    /// What the test has looked at, the server changes only afterwards: for tests that look beside it, before
    /// they give it a reason to. It works because the server calls the workers, as this does, before it takes
    /// things back.
    void let_server_change() const;
    /// Runs `function` where what the daemon hears of ports runs, and returns when it has run.
    void on_control_thread(const std::function<void()>& function);
    /// For functions that run there.
    [[nodiscard]] std::vector<const ClientState*> clients() const { return server_->clients(); }
    void TearDown() override { let_server_change(); }

    ControlState control;
    /// Called on the server's thread.
    std::atomic<const std::function<void(RnicState&, const ReceivedMad&)>*> mad_hook{nullptr};

    [[nodiscard]] const dataplane::NoPort& port(std::uint32_t device) const { return ports_.at(device); }

  private:
    void stop();

    std::string dir_;
    std::vector<std::unique_ptr<dataplane::Device>> devices_;
    std::unique_ptr<NeighbourResolver> neighbours_;
    std::array<dataplane::NoPort, 2> ports_;
    std::unique_ptr<ControlServer> server_;
    UniqueFd stop_fd_;
    UniqueFd watch_fd_;  // readable: watched_ waits to be called
    std::atomic<const std::function<void()>*> watched_{nullptr};
    std::thread thread_;
    mutable std::atomic<std::size_t> connections_{0};
    std::atomic<std::uint64_t> rounds_{0};
};

}  // namespace urnic::daemon
