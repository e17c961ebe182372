// Two programs of two users that write any command of librdmacm's to their channels, in any order, while
// requests come from the network: the handler of the control socket's CmCommand with real event sockets. What
// a reply says of the socket is so, and in the end nothing is left.
#include <endian.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <vector>

#include "base/check.h"
#include "daemon/cm/client.h"
#include "rnic/cm/manager.h"
#include "tests/fuzz/input.h"
#include "tests/unit/daemon/inline_worker.h"
#include "tests/unit/daemon/own_neighbours.h"

namespace urnic::daemon {
namespace {

using fuzz::Input;

constexpr std::size_t kMaxSteps = 200;
constexpr std::uint32_t kDevices = 3;
constexpr std::uint32_t kOfInfiniband = 2;  // the last of them
constexpr std::uint32_t kChannels = 2;
constexpr std::uint32_t kAddress = 0xc6120001;  // 198.18.0.1
constexpr wire::Gid kPortGid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3};
constexpr std::uint16_t kStrangersLid = 9;
constexpr wire::Gid kStrangersGid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};

class OneQpOwner final : public QpOwner {
  public:
    [[nodiscard]] bool has_qp(const RnicState&, std::uint32_t number) const override { return number == 17; }
};

/// The devices. Their tables take too long to make for each input; what one leaves behind ends with its
/// service.
class Rig {
  public:
    Rig() {
        for (std::uint32_t i = 0; i < kDevices; ++i) {
            auto device = std::make_unique<dataplane::Device>();
            const auto last = static_cast<std::uint8_t>(i + 1);
            device->name = "urnic" + std::to_string(i);
            device->index = i;
            device->node_guid = i + 1;
            device->mac = {2, 0, 0, 0, 0, last};
            const wire::Gid ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, last};
            if (i == kOfInfiniband) {
                device->has_infiniband_link = true;
                device->subnet.lid = last;
                device->gids[0] = kPortGid;
                device->ipoib_addresses[0] = ip;
            } else {
                device->gids[1] = ip;
            }
            device->neighbours = &neighbours_;
            control.devices.push_back(std::make_unique<RnicState>(*device, 1));
            devices.push_back(std::move(device));
        }
        control.workers.push_back(std::make_unique<dataplane::Worker>(dataplane::WorkerConfig{}));
        control.limits.max_cm_ids = 40;
        control.limits.max_cm_channels = 4;
        control.limits.max_mcast_attachments = 8;
    }
    static Rig& instance() {
        static Rig rig;
        return rig;
    }

    std::vector<std::unique_ptr<dataplane::Device>> devices;
    ControlState control;

  private:
    OwnNeighbours neighbours_{devices};
};

/// One program: its channels as the provider has them.
class Program {
  public:
    Program(CmService& service, User& user) : client_(service, owner_, user) {
        for (Channel& channel : channels_) {
            URNIC_CHECK(client_.open_channel(channel.handle, channel.reader) == 0);
        }
    }

    void command(Input& input) {
        abi::CmCommandRequest request{};
        Channel& channel = channels_[input.below(kChannels)];
        request.channel = input.below(16) == 0 ? input.number<std::uint32_t>() : channel.handle;
        request.command = input.below(40);
        fill(request, input);
        abi::CmCommandReply reply{};
        const int error = client_.command(request, reply);
        URNIC_CHECK(error >= -1 && error < 4096);
        URNIC_CHECK(reply.out_bytes <= request.out_bytes && reply.out_bytes <= sizeof reply.body);
        if (request.channel == channel.handle) {
            take(channel, reply.own);
        }
    }

    void end() {
        while (client_.end_some()) {
        }
        URNIC_CHECK(client_.num_ids() == 0);
    }

  private:
    struct Channel {
        std::uint32_t handle = 0;
        UniqueFd reader;
        std::uint32_t taken = 0;
    };

    /// Bytes of the input, but for what few would hit: lengths, ids, addresses and QPs that there are.
    void fill(abi::CmCommandRequest& request, Input& input) const {
        static constexpr std::uint32_t kLengths[] = {
            sizeof(rdma_ucm_create_id),  sizeof(rdma_ucm_destroy_id), sizeof(rdma_ucm_bind_ip),
            sizeof(rdma_ucm_resolve_ip), sizeof(rdma_ucm_query),      sizeof(rdma_ucm_connect),
            sizeof(rdma_ucm_accept),     sizeof(rdma_ucm_listen),     sizeof(rdma_ucm_get_event),
            sizeof(rdma_ucm_set_option), sizeof(rdma_ucm_bind),       sizeof(rdma_ucm_resolve_addr),
            sizeof(rdma_ucm_join_mcast), sizeof(rdma_ucm_migrate_id), sizeof(rdma_ucm_join_ip_mcast)};
        const std::span<const std::byte> body =
            input.bytes(input.number<std::uint16_t>() % (sizeof request.body + 1));
        if (!body.empty()) {
            std::memcpy(request.body, body.data(), body.size());
        }
        request.in_bytes =
            input.flag() ? kLengths[input.below(std::size(kLengths))] : input.number<std::uint16_t>() % 600;
        request.out_bytes = input.flag() ? static_cast<std::uint32_t>(sizeof request.body)
                                         : input.number<std::uint16_t>() % 600;
        const auto put = [&](std::size_t at, auto value) {
            std::memcpy(request.body + at % (sizeof request.body - sizeof value), &value, sizeof value);
        };
        for (std::uint32_t edits = input.below(4); edits != 0; --edits) {
            const std::size_t at = std::size_t{input.byte()} * 4;
            switch (input.below(5)) {
                case 0:
                    put(at, std::uint32_t{1} + input.below(12));
                    break;
                case 1:
                    put(at, std::uint32_t{17});
                    break;
                case 2: {
                    sockaddr_in address{};
                    address.sin_family = AF_INET;
                    address.sin_addr.s_addr = htonl(kAddress + input.below(3));
                    address.sin_port = htons(static_cast<std::uint16_t>(7000 + input.below(4)));
                    put(at, address);
                    break;
                }
                case 3: {
                    SockaddrIb address{};
                    const wire::Gid& gid = input.flag() ? kPortGid : kStrangersGid;
                    address.family = AF_IB;
                    address.pkey = 0xffff;
                    std::copy(gid.begin(), gid.end(), std::begin(address.gid));
                    address.service_id = htobe64(
                        cm::ip_service_id(RDMA_PS_TCP, static_cast<std::uint16_t>(7000 + input.below(4))));
                    address.service_mask = ~std::uint64_t{0};
                    put(at, address);
                    break;
                }
                default:
                    put(at, channels_[input.below(kChannels)].handle);
                    break;
            }
        }
    }

    /// As the provider does: a message is there for each that was announced.
    static void take(Channel& channel, const abi::CmChannelFill& fill) {
        for (; static_cast<std::int32_t>(fill.announced - channel.taken - fill.waiting) > 0;
             ++channel.taken) {
            char byte = 0;
            URNIC_CHECK(::recv(channel.reader.get(), &byte, sizeof byte, MSG_DONTWAIT) == 1);
        }
    }

    OneQpOwner owner_;
    CmClient client_;
    Channel channels_[kChannels];
};

/// A request from the network, as another's manager makes it.
void request(const Rig& rig, CmService& service, Input& input) {
    struct Sent final : cm::Outbox {
        void send(const cm::SendMad& mad) override { bytes = mad.bytes; }
        void event(const cm::Event& /*event*/) override {}
        std::array<std::byte, kMadBytes> bytes{};
    } sent;
    cm::Config config;
    config.seed[0] = input.byte();
    cm::Manager peer(config);
    cm::ConnectParams params;
    const bool is_by_gid = input.below(4) == 0;
    const RnicState& to = *rig.control.devices[is_by_gid ? kOfInfiniband : 0];
    params.route.local_gid = is_by_gid ? kStrangersGid : rig.devices[1]->gids[1];
    params.route.remote_gid = is_by_gid ? kPortGid : rig.devices[0]->gids[1];
    params.route.local_lid = is_by_gid ? kStrangersLid : std::uint16_t{0};
    params.route.remote_lid = is_by_gid ? to.device->subnet.lid.load() : std::uint16_t{0};
    params.service_id = cm::ip_service_id(RDMA_PS_TCP, static_cast<std::uint16_t>(7000 + input.below(4)));
    params.local_qpn = 17 + input.below(4);
    if (!is_by_gid) {
        params.ip = {.ip_version = 4,
                     .src_port = 40000,
                     .src_address = ip_cm_address(params.route.local_gid),
                     .dst_address = ip_cm_address(params.route.remote_gid)};
    }
    (void)peer.connect(params, 0, sent);
    for (std::uint32_t edits = input.below(4); edits != 0; --edits) {
        sent.bytes[input.byte()] = static_cast<std::byte>(input.byte());
    }
    const ReceivedMad mad{.src_gid = params.route.local_gid,
                          .dst_gid = params.route.remote_gid,
                          .src_mac = rig.devices[1]->mac,
                          .pkey = 0xffff,
                          .src_qp = 1,
                          .slid = params.route.local_lid,
                          .bytes = sent.bytes};
    service.use(to,
                [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) { manager.receive(mad, now, out); });
}

/// What other threads end, ends before the next input: libFuzzer would look for leaks after each.
void wait_for(Disposer& disposer) {
    struct Last final : Disposable {
        explicit Last(std::promise<void>& of) : ended(of) {}
        Last(const Last&) = delete;
        Last& operator=(const Last&) = delete;
        ~Last() override { ended.set_value(); }
        std::promise<void>& ended;
    };
    std::promise<void> ended;
    disposer.take(std::make_unique<Last>(ended));
    ended.get_future().wait();
}

void use(Rig& rig, Input& input) {
    CmService service(rig.control);
    Program first(service, rig.control.user(1000));
    Program second(service, rig.control.user(1001));
    for (std::size_t step = 0; step < kMaxSteps && !input.empty(); ++step) {
        const std::uint32_t what = input.below(8);
        if (what == 0) {
            request(rig, service, input);
        } else {
            (what % 2 == 0 ? first : second).command(input);
        }
    }
    first.end();
    second.end();
    for (const uid_t uid : {1000U, 1001U}) {
        URNIC_CHECK(rig.control.user(uid).count(Resource::kCmIds) == 0);
    }
}

void run(Input& input) {
    Rig& rig = Rig::instance();
    use(rig, input);
    wait_for(rig.control.disposer);
}

}  // namespace
}  // namespace urnic::daemon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    urnic::fuzz::Input input(data, size);
    urnic::daemon::run(input);
    return 0;
}
