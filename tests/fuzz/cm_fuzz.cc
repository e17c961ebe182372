// A connection manager with an owner and peers that do and send anything, in any order: events belong to
// handles that there are, limits hold, and in the end nothing is left.
#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"
#include "rnic/cm/manager.h"
#include "rnic/cm/messages.h"
#include "tests/fuzz/input.h"

namespace urnic::fuzz {
namespace {

using cm::Event;
using cm::EventType;
using cm::Handle;
using cm::Status;

constexpr wire::Gid kGids[] = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1},
                               {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2},
                               {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}};
constexpr std::uint64_t kServices[] = {0x0106'1c06, 7};
constexpr std::uint32_t kMaxConnections = 48;
constexpr std::uint32_t kMaxHalfOpen = 12;
constexpr std::size_t kMaxSteps = 400;

class Host final : public cm::Outbox {
  public:
    Host() : manager_(config()) {
        for (const std::uint64_t service : kServices) {
            cm::ListenParams listen;
            listen.service_id = service;
            listen.allow_sidr = true;
            listen.backlog = 8;
            URNIC_CHECK(manager_.listen(listen).status == Status::kOk);
        }
    }

    void send(const cm::SendMad& mad) override {
        wire::MadHeader header;
        wire::read_fields(wire::kMadTable, mad.bytes.data(), &header);
        URNIC_CHECK(header.mgmt_class == wire::kMadClassCommunication && header.method == wire::kMadSend);
        URNIC_CHECK(mad.route.local_gid != wire::Gid{} && mad.route.remote_gid != wire::Gid{});
        ++sent_;
    }
    void event(const Event& event) override {
        const bool is_new = event.type == EventType::kRequest || event.type == EventType::kSidrRequest;
        URNIC_CHECK(event.handle != 0 && handles_.contains(event.handle) != is_new);
        URNIC_CHECK(event.private_data.size() <= 224);
        URNIC_CHECK((event.message != nullptr) || !is_new);
        // Each kind at most once, whatever comes.
        URNIC_CHECK((handles_[event.handle] & (1U << static_cast<unsigned>(event.type))) == 0);
        handles_[event.handle] |= 1U << static_cast<unsigned>(event.type);
    }

    void run(Input& input) {
        for (std::size_t step = 0; step < kMaxSteps && !input.empty(); ++step) {
            const std::uint64_t sent = sent_;
            const std::uint8_t what = input.byte();
            if (what % 4 == 0) {
                call(input);
            } else if (what % 16 == 1) {
                now_ += TimeNs{1} << input.below(45);
                manager_.advance(now_, *this);
            } else {
                manager_.receive(mad(input, (what & 0x80U) != 0), now_, *this);
                URNIC_CHECK(sent_ <= sent + 2);  // an answer, and a DREQ to who is stale
            }
            URNIC_CHECK(manager_.size() <= kMaxConnections && manager_.half_open() <= kMaxHalfOpen);
        }
        end();
    }

  private:
    static cm::Config config() {
        cm::Config config;
        config.ca_guid = 1;
        config.max_connections = kMaxConnections;
        config.max_half_open = kMaxHalfOpen;
        config.max_remembered = 6;
        return config;
    }

    void end() {
        while (!handles_.empty()) {
            destroy(handles_.begin()->first);
        }
        while (manager_.next_event() != kNever) {
            now_ = std::max(now_, manager_.next_event());
            manager_.advance(now_, *this);
        }
        URNIC_CHECK(manager_.size() == 0 && manager_.half_open() == 0);
    }
    void destroy(Handle handle) {
        handles_.erase(handle);
        manager_.destroy(handle, now_, *this);
    }

    /// One that there is, mostly.
    Handle handle(Input& input) {
        const std::uint32_t which = input.below(64);
        if (which >= 60 || handles_.empty()) {
            return input.number<Handle>();
        }
        auto it = handles_.begin();
        std::advance(it, which % handles_.size());
        return it->first;
    }
    static cm::Route route(Input& input) {
        cm::Route route;
        route.local_gid = kGids[input.below(2)];
        route.remote_gid = kGids[input.below(3)];
        return route;
    }

    void call(Input& input) {
        const std::span<const std::byte> bytes = input.bytes(input.byte());
        const std::vector<std::uint8_t> data(
            reinterpret_cast<const std::uint8_t*>(bytes.data()),
            reinterpret_cast<const std::uint8_t*>(bytes.data()) + bytes.size());
        switch (input.below(12)) {
            case 0:
                connect(input, data);
                break;
            case 1: {
                cm::SidrReqParams params;
                params.route = route(input);
                params.service_id = kServices[input.below(2)];
                params.private_data = data;
                opened(manager_.send_sidr_req(params, now_, *this));
                break;
            }
            case 2: {
                cm::AcceptParams params;
                params.local_qpn = input.below(16);
                params.private_data = data;
                (void)manager_.accept(handle(input), params, now_, *this);
                break;
            }
            case 3:
                (void)manager_.send_rtu(handle(input), data, now_, *this);
                break;
            case 4:
                (void)manager_.reject(
                    handle(input),
                    {.reason = input.number<std::uint16_t>(), .info = data, .private_data = data}, now_,
                    *this);
                break;
            case 5:
                (void)manager_.disconnect(handle(input), data, now_, *this);
                break;
            case 6:
                (void)manager_.established(handle(input), now_, *this);
                break;
            case 7: {
                cm::SidrRepParams answer;
                answer.status = input.byte();
                answer.qpn = input.below(1U << 25U);
                answer.private_data = data;
                (void)manager_.send_sidr_rep(handle(input), answer, now_, *this);
                break;
            }
            case 8:
                manager_.dequeue(handle(input));
                break;
            case 9:
                forget(handle(input));
                break;
            default:
                destroy(handle(input));
        }
    }
    void forget(Handle handle) {
        const bool was_there = manager_.info(handle).has_value();
        manager_.discard(handle);
        if (was_there && !manager_.info(handle)) {
            handles_.erase(handle);
        }
    }
    void opened(const cm::Manager::Opened& result) {
        URNIC_CHECK((result.status == Status::kOk) == (result.handle != 0));
        if (result.status == Status::kOk) {
            URNIC_CHECK(!handles_.contains(result.handle));
            handles_[result.handle] = 0;
        }
    }
    void connect(Input& input, std::span<const std::uint8_t> data) {
        cm::ConnectParams params;
        params.route = route(input);
        params.service_id = kServices[input.below(2)];
        params.transport = static_cast<cm::Transport>(input.below(3));
        params.local_qpn = input.below(16);
        params.response_timeout = input.below(34) & 0x3fU;
        params.max_cm_retries = input.below(17) & 0x1fU;
        params.private_data = data;
        opened(manager_.connect(params, now_, *this));
    }

    /// A message with IDs and addresses that fit something, mostly, and other fields at random.
    ReceivedMad mad(Input& input, bool is_random) {
        ReceivedMad mad;
        mad.src_gid = kGids[input.below(3)];
        mad.dst_gid = kGids[input.below(2)];
        mad.pkey = 0xffff;
        mad.src_qp = 1;
        const std::uint16_t attribute = 0x10 + static_cast<std::uint16_t>(input.below(12));
        std::array<std::byte, wire::cm::kMessageBytes> body{};
        const std::span<const std::byte> given = input.bytes(is_random ? body.size() : 12);
        std::copy(given.begin(), given.end(), body.begin());
        std::optional<wire::cm::Message> message = wire::cm::parse_message(attribute, body);
        if (!message) {
            return mad;
        }
        if (!is_random) {
            std::visit([&](auto& one) { make_fit(one, input, mad); }, *message);
        }
        const std::uint64_t transaction_id = input.below(4);
        mad.bytes = std::visit([&](const auto& one) { return cm::build_mad(one, transaction_id); }, *message);
        if (input.below(32) == 0) {
            mad.bytes[input.below(wire::kMadBytes)] = static_cast<std::byte>(input.byte());
        }
        return mad;
    }
    static void fit_private(std::span<std::uint8_t> private_data, const ReceivedMad& mad) {
        wire::cm::IpCmHeader ip;
        const bool is_ipv4 = mad.src_gid[10] == 0xff;
        ip.ip_version = is_ipv4 ? 4 : 6;
        std::copy(mad.src_gid.begin() + (is_ipv4 ? 12 : 0), mad.src_gid.end(),
                  ip.src_address.begin() + (is_ipv4 ? 12 : 0));
        std::copy(mad.dst_gid.begin() + (is_ipv4 ? 12 : 0), mad.dst_gid.end(),
                  ip.dst_address.begin() + (is_ipv4 ? 12 : 0));
        wire::write_fields(wire::cm::kIpCmHeaderTable, &ip, std::as_writable_bytes(private_data).data());
    }
    template <class M>
    void make_fit(M& message, Input& input, const ReceivedMad& mad) {
        if constexpr (requires { message.request_id; }) {
            message.request_id = input.flag() ? handle(input) : 1 + input.below(4);
            message.service_id = kServices[input.below(2)];
        } else {
            message.local_comm_id = 1 + input.below(4);
        }
        if constexpr (requires { message.remote_comm_id; }) {
            message.remote_comm_id = handle(input);
        }
        if constexpr (requires { message.local_ca_guid; }) {
            message.local_ca_guid = 1 + input.below(2);
            message.local_qpn = input.below(16);
        }
        if constexpr (requires { message.remote_qpn_eecn; }) {
            message.remote_qpn_eecn = input.below(16);
        }
        if constexpr (requires { message.primary; }) {
            message.primary.local_gid = mad.src_gid;
            message.primary.remote_gid = mad.dst_gid;
            message.path_mtu = 1 + input.below(5) % 5;
            message.pkey = 0xffff;
            message.service_id = kServices[input.below(2)];
            message.transport_service_type = input.below(4) & 3U;
            message.extended_transport_type = 1;
            message.local_cm_response_timeout = input.below(32) & 0x1fU;
            message.max_cm_retries = input.below(16) & 0xfU;
        }
        if constexpr (requires { message.reject_info_length; }) {
            message.reject_info_length = input.below(80) & 0x7fU;
            message.message_rejected = input.below(3) & 3U;
            message.reason = static_cast<std::uint16_t>(input.below(36));
        }
        if constexpr (requires { message.pkey; }) {
            fit_private(message.private_data, mad);
        }
    }

    cm::Manager manager_;
    TimeNs now_ = 1;
    std::uint64_t sent_ = 0;
    std::map<Handle, std::uint32_t> handles_;  // and which events they have had
};

}  // namespace
}  // namespace urnic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    urnic::fuzz::Input input(data, size);
    urnic::fuzz::Host host;
    host.run(input);
    return 0;
}
