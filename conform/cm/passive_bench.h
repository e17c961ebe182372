// The bench of the tester where a program beside the device asks for connections: the tester listens, takes
// the REQ of any librdmacm client (rping -c), and has the device as the active side, whose QP then sends.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "conform/cm/cm_bench.h"

namespace urnic::conform {

class PassiveCmBench final : public CmBench {
  public:
    /// `service_id`: the one that clients ask for.
    PassiveCmBench(WirePort& port, const LivePath& path, std::uint64_t service_id, std::uint32_t first_qp)
        : CmBench(port, path, service_id, first_qp) {}

    /// A client that waits still is sent away, so that the case sees one from the beginning.
    void begin_case(TimeNs limit_ns) override;
    /// Sends clients away that wait, and releases connections.
    void end_case() override;

    /// The REQ of a client that this case has not seen; a program that ends is given the time to be started
    /// again. Throws BenchFailed when none comes for half a minute.
    [[nodiscard]] HeardMessage hear_request();
    /// The same REQ again; nothing: it did not come until then.
    [[nodiscard]] std::optional<HeardMessage> hear_again(const HeardMessage& request, TimeNs until);
    /// A REP that the client should take: a new communication ID, a new QP of the tester's. Not told yet.
    [[nodiscard]] wire::cm::Rep reply_to(const HeardMessage& request);
    /// Until a client that is connected has sent its first request, or will not: some hang when their
    /// connection is released before they have noticed that it stands (rping).
    void await_client();
    /// In the transaction of that request.
    void tell_back(const HeardMessage& request, const wire::cm::Message& message);
    [[nodiscard]] static wire::cm::Req req_of(const HeardMessage& request) {
        return std::get<wire::cm::Req>(request.message);
    }

    // --- The connection of create()
    /// The client's REQ, as it came.
    [[nodiscard]] const HeardMessage& request() const { return request_; }
    [[nodiscard]] const wire::cm::Req& asked() const { return asked_; }
    [[nodiscard]] const wire::cm::Rep& reply() const { return reply_; }

    /// A REQ, and the REP for it.
    void create(const ConnectOptions& connect, const QpOptions& qp, std::span<const std::byte> data) override;
    /// The RTU that has to come. Throws StepFailed when something else comes, or nothing.
    void rts() override;
    [[nodiscard]] std::uint32_t qp_num() const override { return asked_.local_qpn; }
    [[nodiscard]] std::uint32_t peer_qp_num() const override { return reply_.local_qpn; }

  private:
    struct Client {
        HeardMessage request;
        std::uint32_t own_id = 0;  // 0: not answered
    };

    void take_request(const HeardMessage& heard) override;
    [[nodiscard]] bool is_ours(std::uint32_t number) const override;
    [[nodiscard]] bool is_waiting(const Client& client) const;
    void send_away(const HeardMessage& request, std::uint32_t own_id);

    std::deque<HeardMessage> requests_;        // not looked at yet
    std::map<std::uint32_t, Client> clients_;  // of this case, by their communication IDs
    std::set<std::uint32_t> qps_;              // the tester's of this case
    HeardMessage request_;
    wire::cm::Req asked_;
    wire::cm::Rep reply_;
};

}  // namespace urnic::conform
