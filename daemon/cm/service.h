// The connection managers of all devices, their MADs and their time. The control thread's.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/cm/ports.h"
#include "daemon/state/control_state.h"
#include "os/monotonic_clock.h"
#include "os/timer_fd.h"
#include "rnic/cm/manager.h"

namespace urnic::daemon {

struct CmId;

class CmService {
  public:
    /// Before the workers start: from now on the devices have a QP1. Throws std::system_error.
    explicit CmService(ControlState& control);
    CmService(const CmService&) = delete;
    CmService& operator=(const CmService&) = delete;
    ~CmService();

    /// Calls `function` with the manager of a device, the time, and where MADs and events go; afterwards does
    /// what could not be done meanwhile.
    template <typename Function>
    auto use(const RnicState& device, Function function) {
        Port& port = *ports_of_.at(device.device->index);
        struct Finish {
            CmService& service;
            Port& port;
            ~Finish() { service.finish(port); }
        } finish{*this, port};
        return function(port.manager, clock_now(), static_cast<cm::Outbox&>(port));
    }
    [[nodiscard]] const cm::Manager& manager(const RnicState& device) const {
        return ports_of_.at(device.device->index)->manager;
    }

    [[nodiscard]] ControlState& control() { return control_; }
    PortTable ports;

  private:
    struct Port final : cm::Outbox {
        Port(CmService& of, RnicState& on, const cm::Config& config)
            : service(of), device(on), manager(config) {}
        void send(const cm::SendMad& mad) override;
        void event(const cm::Event& event) override;
        CmService& service;
        RnicState& device;
        cm::Manager manager;
        std::uint32_t psn = 0;
        /// Requests that came in the call that runs: with whose they are now, or nullptr.
        struct Fresh {
            cm::Handle connection = 0;
            CmId* id = nullptr;
        };
        boost::container::static_vector<Fresh, 8> fresh;
    };

    void finish(Port& port);
    void arm();
    void on_time();

    ControlState& control_;
    TimerFd timer_;
    TimeNs armed_for_ = kNever;
    std::vector<std::unique_ptr<Port>> ports_of_;  // by Device::index
};

}  // namespace urnic::daemon
