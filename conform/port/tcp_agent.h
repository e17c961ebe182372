// The TCP connection to urnic-conform-agent.
#pragma once

#include <string>

#include "conform/live/wire_port.h"
#include "os/unique_fd.h"

namespace urnic::conform {

class TcpAgent final : public AgentChannel {
  public:
    /// Connects within `patience_ms`. Throws SetupError.
    TcpAgent(const std::string& host, const std::string& port, int patience_ms);
    std::string call(const std::string& line) override;
    /// How long an answer may take from now on.
    void set_patience(int milliseconds) { patience_ms_ = milliseconds; }

  private:
    std::string where_;
    int patience_ms_;
    UniqueFd socket_;
    std::string received_;
};

}  // namespace urnic::conform
