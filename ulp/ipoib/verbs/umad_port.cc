#include "ulp/ipoib/verbs/umad_port.h"

#include <infiniband/umad.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ulp/ipoib/tap/setup_error.h"

namespace urnic::ipoib {

namespace {

constexpr int kClass = 0x03;
constexpr int kClassVersion = 2;
constexpr int kGsiQpn = 1;
constexpr std::uint32_t kGsiQkey = 0x80010000;
constexpr int kTimeoutMs = 500;
constexpr int kRetries = 3;

}  // namespace

UmadPort::UmadPort(const RdmaPort& port) : port_(port) {
    umad_init();
    umad_ = umad_open_port(port.device_name().c_str(), port.number());
    if (umad_ < 0) {
        throw SetupError(
            "cannot ask the subnet administrator of " + port.text() + ": " + std::strerror(-umad_) +
            " (umad_open_port: /dev/infiniband/umad* are for root; on urnic for the daemon's user, too)");
    }
    agent_ = umad_register(umad_, kClass, kClassVersion, 0, nullptr);
    if (agent_ < 0) {
        umad_close_port(umad_);
        throw SetupError("cannot ask the subnet administrator of " + port.text() +
                         ": umad_register: " + std::strerror(-agent_));
    }
    buffer_.resize(umad_size() + SaMad{}.size());
}

UmadPort::~UmadPort() {
    umad_unregister(umad_, agent_);
    umad_close_port(umad_);
}

int UmadPort::fd() const { return umad_get_fd(umad_); }

bool UmadPort::request(const SaMad& mad) {
    const std::optional<ibv_port_attr> port = port_.try_query();
    if (!port || port->sm_lid == 0) {
        return false;
    }
    std::fill(buffer_.begin(), buffer_.end(), std::byte{0});
    umad_set_addr(buffer_.data(), port->sm_lid, kGsiQpn, port->sm_sl, static_cast<int>(kGsiQkey));
    std::copy(mad.begin(), mad.end(), static_cast<std::byte*>(umad_get_mad(buffer_.data())));
    return umad_send(umad_, agent_, buffer_.data(), static_cast<int>(mad.size()), kTimeoutMs, kRetries) == 0;
}

void UmadPort::take(SubnetClient& client) {
    while (true) {
        int octets = static_cast<int>(SaMad{}.size());
        const int agent = umad_recv(umad_, buffer_.data(), &octets, 0);
        if (agent == -EAGAIN) {
            return;
        }
        if (agent < 0 || octets <= 0) {
            throw SetupError("RDMA device " + port_.device_name() +
                             " is gone (umad): start again when it is back");
        }
        const auto* const mad = static_cast<const std::byte*>(umad_get_mad(buffer_.data()));
        const ConstOctets answer(
            mad, static_cast<std::size_t>(std::clamp(octets, 0, static_cast<int>(SaMad{}.size()))));
        if (umad_status(buffer_.data()) == 0) {
            client.on_answer(answer);
        } else if (const std::optional<std::uint32_t> id = sa_request_id(answer)) {
            // Given up: the request comes back, or its header alone.
            client.on_timeout(*id);
        }
    }
}

}  // namespace urnic::ipoib
