// Two connected QPs, their applications and the wire between them, driven by an input: each of its bytes
// chooses a command, the bytes behind it the command's operands.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/fuzz/qp_host.h"

namespace urnic::fuzz {

class QpScript {
  public:
    enum class Hostile : std::uint8_t {
        kWire,         // packets are changed and made up, with good ICRCs; the applications keep the rules
        kApplication,  // rings are scribbled over and attributes are garbage; packets are lost at most
    };
    QpScript(Input& input, Hostile hostile);
    void run();

  private:
    using Command = void (QpScript::*)();

    void connect();
    void modify_to(QpHost& host, QpState state);
    void finish();
    [[nodiscard]] QpHost& pick_host() { return *hosts_[input_.byte() & 1U]; }
    [[nodiscard]] QpHost& peer_of(const QpHost& host) {
        return *hosts_[host.peer == hosts_[1].get() ? 1 : 0];
    }

    // Applications
    [[nodiscard]] std::vector<abi::Sge> pick_sges(const QpHost& host);
    /// The host that posted; nullptr: its queue was full.
    QpHost* post_one_send();
    QpHost* post_one_recv();
    void post_send() { (void)post_one_send(); }
    void post_recv() { (void)post_one_recv(); }
    void poll();
    void change_state();
    void change_key();
    // Wire
    void deliver();
    void deliver_all();
    void drop();
    void duplicate();
    void change_packet();
    void make_packet();
    [[nodiscard]] wire::PacketHeader pick_header(const QpHost& to, std::uint32_t payload_bytes);
    // Worker
    void progress();
    void progress_all();
    void pass_time();
    // Applications that break the rules
    void scribble_send();
    void scribble_recv();
    void publish_slot();
    void post_miscounted();
    void lie_about_taken();
    void modify_to_garbage();

    Input& input_;
    Hostile hostile_;
    sim::SimClock clock_;
    std::array<std::unique_ptr<QpHost>, 2> hosts_;
    abi::QpAttr attr_{};  // how the QPs are connected
    std::array<std::uint32_t, 2> first_psn_{};
};

}  // namespace urnic::fuzz
