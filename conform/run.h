// One run of the tester: the path to the device, the agent, and the cases, with their reports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "conform/case/case_list.h"
#include "conform/judged_device.h"
#include "conform/live/judge.h"
#include "conform/port/packet_port.h"
#include "conform/record.h"
#include "rnic/device/rnic_profile.h"

namespace urnic::conform {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitNotRun = 2;

struct Options {
    std::string peer;
    std::vector<std::string> filters;
    std::string port;
    std::string agent;
    std::string device;
    std::string label;
    std::string profile;
    std::string json;
    std::string junit;
    std::string html;
    std::string evidence;
    std::uint32_t rate = 20'000;
    std::uint64_t seed = 0;
    std::uint32_t attempts = 3;
    std::uint16_t cm_port = 7174;  // rping's
    std::uint16_t vlan = 0;        // 0: none
    bool cm = false;
    bool cm_listen = false;
    bool resume = false;
    bool yes = false;
    bool list = false;
};

/// IPv4-mapped or IPv6. Throws SetupError: no IP address, or not that of one device.
[[nodiscard]] Gid peer_address(const std::string& text);

/// Of a --profile; nullptr of none. Throws SetupError, with the names that there are, when none has that
/// name.
[[nodiscard]] const RnicProfile* profile_named(const std::string& name);

class Run {
  public:
    /// Throws SetupError when port, device or agent are not to be had.
    explicit Run(const Options& options);
    /// Plays them all, or until the agent or the port are lost; the exit status of the program.
    [[nodiscard]] int play(const std::vector<const Case*>& cases);

  private:
    class Neighbour;

    [[nodiscard]] LivePath find_path();
    [[nodiscard]] std::unique_ptr<JudgedDevice> make_device();
    [[nodiscard]] std::uint32_t first_qp() const;
    void resume();
    void prepare();
    void play_all(const std::vector<const Case*>& cases);
    void play_case(const Case& entry, PathProof& proof);
    [[nodiscard]] RunRecord with_earlier() const;
    void save(bool is_last);
    [[nodiscard]] int finish(std::size_t wanted);

    const Options& options_;
    const RnicProfile* profile_;  // null: the device is compared with none
    Gid peer_;
    PacketPort port_;
    LivePath path_;
    std::unique_ptr<JudgedDevice> device_;
    RunRecord run_;
    std::vector<CaseRecord> earlier_;  // of the run that this one resumes
    TimeNs saved_ = 0;
};

}  // namespace urnic::conform
