// `urnic extcap`: the RNICs as interfaces of Wireshark, by its extcap interface.
#pragma once

#include <string>

#include "os/command_line.h"

namespace urnic::cli {

class ExtcapCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit ExtcapCommand(const Command& app);
    ExtcapCommand(const ExtcapCommand&) = delete;
    ExtcapCommand& operator=(const ExtcapCommand&) = delete;

    [[nodiscard]] bool parsed() const { return extcap_.parsed(); }
    /// Answers one call of Wireshark's. Throws LaunchError, whose text Wireshark shows.
    void run() const;

  private:
    void list_interfaces() const;
    void list_link_types() const;
    void list_options() const;
    void capture() const;

    Command extcap_;
    std::string socket_;
    std::string version_;
    std::string interface_;
    std::string fifo_;
    std::string filter_;
    std::string qp_filter_;
    bool wants_interfaces_ = false;
    bool wants_link_types_ = false;
    bool wants_options_ = false;
    bool wants_capture_ = false;
    bool is_cleanup_ = false;
    std::uint32_t snap_bytes_ = 65535;
    std::uint32_t buffer_mb_ = 32;
};

}  // namespace urnic::cli
