#include "ulp/rpcrdma/verbs/connect.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "ulp/rpcrdma/verbs/error.h"
#include "ulp/rpcrdma/verbs/waiter.h"

namespace urnic::rpcrdma {
namespace {

/// Between two questions whether to continue.
constexpr int kSliceMs = 20;
// Reasons of a REJ (IBA 12.6.7.2).
constexpr int kRejectInvalidServiceId = 8;
constexpr int kRejectConsumer = 28;

class Connector {
  public:
    Connector(const sockaddr_storage& server, const rpcrdma_options& options,
              const std::function<bool()>& can_continue)
        : server_(server),
          to_(reinterpret_cast<const sockaddr*>(&server)),
          options_(options),
          can_continue_(can_continue),
          deadline_ns_(now_ns() + std::int64_t{options.connect_timeout_ms} * 1'000'000) {}

    [[nodiscard]] int run(Connected& out);

  private:
    [[nodiscard]] int resolve();
    [[nodiscard]] int connect(Connected& out);
    [[nodiscard]] int await(rdma_event_channel* channel, rdma_cm_event_type expected, const char* step,
                            std::optional<PrivateData>* peer = nullptr);
    [[nodiscard]] int failed(const rdma_cm_event& event, const char* step) const;

    sockaddr_storage server_;
    AddressText to_;
    const rpcrdma_options& options_;
    const std::function<bool()>& can_continue_;
    std::int64_t deadline_ns_;
    CmId cm_;
};

int Connector::run(Connected& out) {
    cm_.channel = rdma_create_event_channel();
    if (cm_.channel == nullptr) {
        return fail(errno,
                    "no event channel of librdmacm: %s (is the module rdma_ucm loaded, or `urnic run` used?)",
                    std::strerror(errno));
    }
    const int fd = cm_.channel->fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        return fail(errno, "fcntl: %s", std::strerror(errno));
    if (rdma_create_id(cm_.channel, &cm_.id, nullptr, RDMA_PS_TCP) != 0) {
        return fail(errno, "no id of librdmacm: %s", std::strerror(errno));
    }
    const int error = resolve();
    return error != 0 ? error : connect(out);
}

int Connector::resolve() {
    const int timeout_ms = static_cast<int>(std::min<std::uint32_t>(options_.connect_timeout_ms, INT32_MAX));
    if (rdma_resolve_addr(cm_.id, nullptr, reinterpret_cast<sockaddr*>(&server_), timeout_ms) != 0) {
        return fail(errno, "%s: no RDMA device leads there: %s", to_.text, std::strerror(errno));
    }
    int error = await(cm_.channel, RDMA_CM_EVENT_ADDR_RESOLVED, "no address resolution");
    if (error != 0) return error;
    if (rdma_resolve_route(cm_.id, timeout_ms) != 0) {
        return fail(errno, "%s: no route: %s", to_.text, std::strerror(errno));
    }
    error = await(cm_.channel, RDMA_CM_EVENT_ROUTE_RESOLVED, "no route");
    return error;
}

int Connector::connect(Connected& out) {
    out.endpoint = Endpoint::create(std::move(cm_), sizes_of(options_));
    if (out.endpoint == nullptr) return errno;
    const PrivateData own = private_data_of(options_, out.endpoint->device());
    const std::array<std::byte, kPrivateDataOctets> data = encode_private_data(own);
    rdma_conn_param param{};
    param.private_data = data.data();
    param.private_data_len = static_cast<std::uint8_t>(data.size());
    param.responder_resources = out.endpoint->read_depth();
    param.initiator_depth = out.endpoint->read_depth();
    param.retry_count = 6;  // 7 is without end with Linux rxe: a peer that has ended would never be noticed
    param.rnr_retry_count = 7;
    int error = 0;
    if (rdma_connect(out.endpoint->id(), &param) != 0) {
        error = fail(errno, "%s: rdma_connect: %s", to_.text, std::strerror(errno));
    } else {
        error = await(out.endpoint->event_channel(), RDMA_CM_EVENT_ESTABLISHED, "no connection", &out.peer);
    }
    if (error != 0) out.endpoint.reset();
    return error;
}

int Connector::failed(const rdma_cm_event& event, const char* step) const {
    switch (event.event) {
        case RDMA_CM_EVENT_REJECTED:
            if (event.status == kRejectConsumer) {
                return fail(ECONNREFUSED, "%s: the server refuses: it may have all its connections",
                            to_.text);
            }
            return fail(ECONNREFUSED, "%s: rejected with reason %d%s", to_.text, event.status,
                        event.status == kRejectInvalidServiceId ? ": nobody listens on that port" : "");
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            return fail(ENODEV, "%s: %s: the device is gone", to_.text, step);
        default: {
            const int error = event.status < 0 ? -event.status : EHOSTUNREACH;
            return fail(error, "%s: %s: %s: %s", to_.text, step, rdma_event_str(event.event),
                        std::strerror(error));
        }
    }
}

int Connector::await(rdma_event_channel* channel, rdma_cm_event_type expected, const char* step,
                     std::optional<PrivateData>* peer) {
    for (;;) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel, &event) == 0) {
            const int error = event->event == expected ? 0 : failed(*event, step);
            if (error == 0 && peer != nullptr && event->param.conn.private_data != nullptr) {
                *peer = decode_private_data({static_cast<const std::byte*>(event->param.conn.private_data),
                                             event->param.conn.private_data_len});
            }
            (void)rdma_ack_cm_event(event);
            return error;
        }
        if (errno != EAGAIN) return fail(errno, "%s: %s: %s", to_.text, step, std::strerror(errno));
        const std::int64_t left_ms = (deadline_ns_ - now_ns()) / 1'000'000;
        if (left_ms <= 0) {
            return fail(ETIMEDOUT, "%s: %s within %u ms (options.connect_timeout_ms)", to_.text, step,
                        options_.connect_timeout_ms);
        }
        if (!can_continue_()) return fail(ECANCELED, "%s: cancelled", to_.text);
        pollfd entry{channel->fd, POLLIN, 0};
        (void)::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left_ms, kSliceMs)));
    }
}

}  // namespace

AddressText::AddressText(const sockaddr* address) {
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    const socklen_t size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        host = {"?"};
    }
    (void)std::snprintf(text, sizeof(text), "%.60s:%.8s", host.data(), port.data());
}

int connect_to(const sockaddr_storage& server, const rpcrdma_options& options,
               const std::function<bool()>& can_continue, Connected& out) {
    return Connector(server, options, can_continue).run(out);
}

}  // namespace urnic::rpcrdma
