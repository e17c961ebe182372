// The umad and issm devices of the RNICs of InfiniBand, as sockets of the control thread (abi/umad.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "abi/umad.h"
#include "daemon/state/control_state.h"
#include "daemon/subnet/mad_file.h"
#include "os/disposer.h"
#include "os/event_loop.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

class UmadServer {
  public:
    /// Open devices at once, of all users together: a few programs that open one each, and eight that open
    /// those of all ports, as ibacm does.
    static constexpr std::size_t kFilesOfPrograms = 64;
    static constexpr std::size_t kFilesOfPort = 8;
    /// Datagrams of one program in a row before the next one's turn comes.
    static constexpr int kDatagramsPerTurn = 64;

    struct Effects {
        std::function<void(std::uint32_t port, const subnet::MadPacket&)> send;
        std::function<void(std::uint32_t port, bool is_sm)> set_is_sm;
        std::function<void()> after_input;  // what programs sent is under way
    };

    /// `tree`: the daemon's sysroot, where the sockets are umad0, issm0 and so on. Throws std::system_error;
    /// paths that are too long for a socket are an error, too.
    UmadServer(ControlState& control, const std::string& tree, std::uint32_t num_ports, Effects effects);
    UmadServer(const UmadServer&) = delete;
    UmadServer& operator=(const UmadServer&) = delete;
    ~UmadServer();

    /// A MAD for the programs of a port. Returns whether one takes it.
    bool deliver(std::uint32_t port, const subnet::MadPacket& packet, TimeNs now);
    void advance(TimeNs now);
    [[nodiscard]] TimeNs next_event() const;

  private:
    enum class Kind : std::uint8_t { kUmad, kIssm, kControl };
    struct Listener {
        Kind kind;
        std::uint32_t port;
        UniqueFd socket;
        EventLoop::Id events = 0;
    };
    struct File final : Disposable {
        File(Kind kind_of_it, std::uint32_t its_port, UniqueFd its_socket)
            : kind(kind_of_it), port(its_port), socket(std::move(its_socket)) {}

        Kind kind;
        std::uint32_t port;
        UniqueFd socket;
        EventLoop::Id events = 0;
        std::unique_ptr<MadFile> mads;  // of kUmad
    };

    void listen(Kind kind, std::uint32_t port, const std::string& path);
    [[nodiscard]] int peer_error(const Listener& listener, int socket) const;
    void on_connection(const Listener& listener);
    void pause_accept();
    void on_input(std::uint64_t token);
    void close(std::uint64_t token);
    [[nodiscard]] bool read_some(File& file);
    void answer_call(File& file, std::span<const std::byte> datagram);
    [[nodiscard]] int call(abi::UmadCall& call);
    void give(int socket, std::span<const std::byte> datagram);

    ControlState& control_;
    Effects effects_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    std::map<std::uint64_t, std::unique_ptr<File>> files_;  // by token
    std::vector<std::uint32_t> num_sms_;                    // open issm devices, by port
    std::uint32_t next_tid_ = 1;
    TimeNs accept_again_ = kNever;  // when there were no descriptors
    bool is_loss_logged_ = false;
};

}  // namespace urnic::daemon
