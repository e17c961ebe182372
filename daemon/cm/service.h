// The connection managers of all devices, their MADs and their time. The control thread's.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/cm/port_table.h"
#include "daemon/cm/subnet_memberships.h"
#include "daemon/state/control_state.h"
#include "os/monotonic_clock.h"
#include "os/secure_random.h"
#include "os/timer_fd.h"
#include "rnic/cm/manager.h"
#include "rnic/subnet/sa_requests.h"

namespace urnic::daemon {

struct CmId;

class CmService final : private RnicObserver {
  public:
    /// Before the workers start: from now on the devices have a QP1. Throws std::system_error.
    explicit CmService(ControlState& control);
    CmService(const CmService&) = delete;
    CmService& operator=(const CmService&) = delete;
    ~CmService() override;

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

    /// Of InfiniBand: what has come for QP1 of the RNIC's port. Returns whether it is connection
    /// management's, or an answer to one of the requests below.
    bool receive(RnicState& device, const subnet::MadPacket& packet);
    /// Of InfiniBand: asks subnet administration. CmClient::on_path() has the answer, unless it is forgotten
    /// before. Throws std::bad_alloc.
    [[nodiscard]] subnet::SaRequests::Id ask_administration(const RnicState& device,
                                                            const subnet::SaRequest& request, TimeNs time_ns,
                                                            CmId* id);
    void forget_request(const RnicState& device, subnet::SaRequests::Id request);
    /// Of InfiniBand: what the port is a member of.
    [[nodiscard]] SubnetMemberships& memberships(const RnicState& device) {
        return ports_of_.at(device.device->index)->memberships;
    }

    [[nodiscard]] ControlState& control() { return control_; }
    PortTable ports;

  private:
    struct Port final : cm::Outbox {
        Port(CmService& of, RnicState& on, const cm::Config& config);
        subnet::SaRequests::Id ask(const subnet::SaRequest& request, TimeNs time_ns, CmId* id);
        void send(const cm::SendMad& mad) override;
        void send_to_lid(const subnet::MadPacket& packet) const;
        void event(const cm::Event& event) override;
        CmService& service;
        RnicState& device;
        cm::Manager manager;
        std::uint32_t psn = 0;
        subnet::SaRequests administration{secure_random()};  // of InfiniBand
        SubnetMemberships memberships;                       // of InfiniBand
        /// Requests that came in the call that runs: with whose they are now, or nullptr.
        struct Fresh {
            cm::Handle connection = 0;
            CmId* id = nullptr;
        };
        boost::container::static_vector<Fresh, 8> fresh;
    };

    void finish(Port& port);
    void arm();
    static void end_request(Port& port, const subnet::SaRequests::Ended& ended,
                            const subnet::SaRequests::Answer* answer);

    void on_port_state(const RnicState& /*rnic*/, bool /*is_up*/) override {}
    void on_gids(const RnicState& /*rnic*/) override {}
    void on_link(RnicState& rnic, bool has_link) override;
    void on_subnet(const RnicState& rnic, std::optional<AsyncEventType> event) override;
    void on_time();

    ControlState& control_;
    TimerFd timer_;
    TimeNs armed_for_ = kNever;
    std::vector<std::unique_ptr<Port>> ports_of_;  // by Device::index
};

}  // namespace urnic::daemon
