// The requests to urnic-conform-agent as functions (docs/conform.md lists the lines).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "conform/case/requests.h"
#include "conform/live/wire_port.h"

namespace urnic::conform {

inline constexpr int kAgentVersion = 3;

struct AgentKeys {
    std::uint32_t index = 0;
    std::uint32_t lkey = 0;
    std::uint32_t rkey = 0;
};
struct AgentQp {
    std::uint32_t index = 0;
    std::uint32_t number = 0;
};
struct AgentWindow {
    std::uint32_t index = 0;
    std::uint32_t rkey = 0;
};
struct AgentSrq {
    std::uint32_t index = 0;
    std::uint32_t number = 0;
};
struct AgentQpState {
    QpState state = QpState::kReset;
    bool is_draining = false;
};

/// Every function throws BenchFailed when the agent says nothing, or something that is no answer to it.
class Agent {
  public:
    explicit Agent(AgentChannel& channel) : channel_(channel) {}

    /// Refuses an agent of another version.
    void hello();
    /// Opens the device that has that GID; `device` empty: whichever has. What the agent says about it, by
    /// name.
    std::map<std::string, std::string> open(const std::string& device, const Gid& gid);
    /// Its address.
    std::uint64_t arena(std::size_t bytes);
    void reset();
    void fill(std::size_t offset, std::size_t length, std::uint32_t seed);
    void put(std::size_t offset, std::span<const std::byte> data);
    void get(std::size_t offset, std::span<std::byte> data);
    AgentKeys register_memory(std::size_t offset, std::size_t length, std::uint32_t access);
    /// Of type 2. Throws NotApplicable when the device has none.
    AgentWindow allocate_window();
    /// Its index. Throws NotApplicable when the device makes none.
    std::uint32_t make_address_handle(const Gid& gid, std::uint8_t traffic_class, std::uint8_t sl);
    /// Throws NotApplicable when the device makes no such QP.
    AgentQp create_qp(const QpOptions& options);
    /// In the domain of that XRC target. Throws NotApplicable when the device makes none.
    AgentSrq create_srq(std::uint32_t qp, const QpOptions& options);
    /// `attributes`: "state=3 timeout=14". The errno of the device; 0 when it was done.
    int modify(std::uint32_t qp, const std::string& attributes);
    AgentQpState query(std::uint32_t qp);
    /// One entry for each request, as the agent's "send" has them. The errno of the device.
    int send(std::uint32_t qp, const std::vector<std::string>& requests);
    int receive(std::uint32_t qp, std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
        return post_receive("recv", qp, wr_id, sge);
    }
    int receive_by_srq(std::uint32_t srq, std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
        return post_receive("srq_recv", srq, wr_id, sge);
    }
    std::vector<SeenCompletion> poll(std::uint32_t qp, bool recv);
    std::vector<AsyncEventType> events();

  private:
    /// The words behind "ok".
    std::vector<std::string> ask(const std::string& line);
    /// What the device cannot do is no failure of the agent's.
    std::vector<std::string> ask_device(const std::string& line, std::size_t words, const std::string& what);
    int post_receive(const std::string& request, std::uint32_t index, std::uint64_t wr_id,
                     const std::vector<abi::Sge>& sge);
    /// 0, or the number of an "error".
    int try_ask(const std::string& line, std::string& answer);

    AgentChannel& channel_;
};

/// A GID as the agent writes it: 32 hexadecimal digits.
[[nodiscard]] std::string gid_digits(const Gid& gid);
/// A number of the agent's. Throws BenchFailed when it is none.
[[nodiscard]] std::uint64_t agent_number(const std::string& text);

}  // namespace urnic::conform
