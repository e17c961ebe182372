// The engine of RPC-over-RDMA against a peer, a program and an RNIC that do anything in any order. Messages
// are whatever the input says, or the connection's own last header with octets changed, so that they get
// beyond the first checks. Each call ends once, each buffer is freed once, memory of a call that has ended is
// withdrawn.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/input.h"
#include "ulp/rpcrdma/codec/xdr.h"
#include "ulp/rpcrdma/engine/connection.h"

namespace urnic::fuzz {
namespace {

using namespace urnic::rpcrdma;  // NOLINT(google-build-using-namespace): the target is about nothing else
using Octets = std::vector<std::byte>;

class Host : public Outbox {
  public:
    explicit Host(const Config& config) : connection(config, *this) {}

    [[nodiscard]] Buffer allocate(std::size_t octets) override {
        if (has_no_memory) {
            return {};
        }
        Octets& memory = buffers[++next_cookie];
        memory.resize(std::max<std::size_t>(octets, 1));
        return {memory, next_cookie};
    }
    void free(const Buffer& buffer) override { URNIC_CHECK(buffers.erase(buffer.cookie) == 1); }
    [[nodiscard]] bool expose(std::span<const std::byte> memory, Access /*access*/, Exposure& out) override {
        if (has_no_memory) {
            return false;
        }
        out.segment = {++next_handle, static_cast<std::uint32_t>(memory.size()), 0x1000};
        out.can_remote_invalidate = (next_handle & 1U) != 0;
        exposed.insert(next_handle);
        return true;
    }
    [[nodiscard]] bool withdraw(std::uint32_t call, std::span<const Exposure> exposures,
                                std::uint32_t /*invalidated*/) override {
        for (const Exposure& exposure : exposures) {
            URNIC_CHECK(exposed.erase(exposure.segment.handle) == 1);
        }
        if (!withdraws_later || is_down) {
            return true;
        }
        withdrawing.push_back(call);
        return false;
    }
    void send(const OutgoingMessage& message) override {
        last_header.assign(message.header.begin(), message.header.end());
        if (message.token != 0) {
            tokens.push_back(message.token);
        }
    }
    void read(std::uint32_t call, const Segment& from, std::span<std::byte> into) override {
        URNIC_CHECK(from.length == into.size());
        std::fill(into.begin(), into.end(), std::byte{0});
        reads.push_back(call);
    }
    void write(std::span<const std::byte> from, const Segment& to) override {
        URNIC_CHECK(from.size() == to.length);
    }
    void resize_receives(std::uint32_t octets) override { resized = octets; }
    void complete(std::uint64_t token, const Completion& completion) override {
        URNIC_CHECK(outstanding.erase(token) == 1);
        if (completion.status == CallStatus::kReplied) {
            URNIC_CHECK(completion.reply_octets <= completion.reply.octets.size());
            free(completion.reply);
        }
    }
    void execute(const IncomingCall& call) override {
        URNIC_CHECK(call.call_octets <= call.call.octets.size());
        executing.push_back(call);
    }
    void replied(std::uint32_t /*call*/) override {}
    void close(CloseReason /*reason*/) override {}

    Connection connection;
    std::map<std::uint64_t, Octets> buffers;
    std::set<std::uint32_t> exposed;
    std::set<std::uint64_t> outstanding;
    std::vector<std::uint64_t> tokens;
    std::vector<std::uint32_t> reads;
    std::vector<std::uint32_t> withdrawing;
    std::vector<IncomingCall> executing;
    Octets last_header;
    std::uint64_t next_cookie = 0;
    std::uint32_t next_handle = 0x100;
    std::uint32_t resized = 0;
    bool has_no_memory = false;
    bool withdraws_later = false;
    bool is_down = false;
};

/// What calls and replies refer to.
struct Program {
    Octets stream = Octets(9000);
    Octets item = Octets(5000);
    Octets result = Octets(6000);
    std::array<Item, 1> items;
    std::array<std::span<std::byte>, 1> results;

    RpcMessage message(Input& input, std::uint32_t xid, Direction type) {
        XdrWriter writer(stream);
        writer.u32(xid);
        writer.u32(static_cast<std::uint32_t>(type));
        const std::size_t octets = 8 + 4 * input.below(2000);
        items[0] = {8 + 4 * std::size_t{input.below(static_cast<std::uint32_t>(octets / 4 - 1))},
                    std::span(item).first(input.below(5000))};
        return {std::span(stream).first(octets), std::span(items).first(input.flag() ? 1 : 0)};
    }
};

void call(Host& host, Program& program, Input& input, std::int64_t now) {
    CallRequest request;
    request.xid = input.below(8);
    request.message = program.message(input, request.xid, Direction::kCall);
    program.results[0] = program.result;
    request.results = std::span(program.results).first(input.flag() ? 1 : 0);
    request.max_reply_octets = input.below(9000);
    request.deadline_ns = input.flag() ? now + input.below(10) : 0;
    static std::uint64_t token = 0;
    request.token = ++token;
    host.outstanding.insert(request.token);
    host.connection.call(request, now);
}

/// A message from the peer: raw, or the last header with a new version, proc and octets changed, with an RPC
/// message behind.
void receive(Host& host, Input& input) {
    Octets message;
    if (input.flag()) {
        const std::span<const std::byte> raw = input.bytes(input.below(256));
        message.assign(raw.begin(), raw.end());
    } else {
        message = host.last_header;
        for (std::uint32_t changes = input.below(6); changes != 0 && !message.empty(); --changes) {
            const std::uint32_t at = input.below(static_cast<std::uint32_t>(message.size()));
            message[at] = static_cast<std::byte>(input.byte());
        }
        const std::span<const std::byte> tail = input.bytes(input.below(64));
        message.insert(message.end(), tail.begin(), tail.end());
        if (input.flag() && message.size() >= 4) {
            // The front of an RPC message with the header's XID.
            message.insert(message.end(), message.begin(), message.begin() + 4);
            message.insert(message.end(), {std::byte{0}, std::byte{0}, std::byte{0},
                                           static_cast<std::byte>(input.below(2))});
        }
    }
    host.connection.on_receive(message, input.below(4) == 0 ? host.next_handle : 0);
}

template <class T>
std::optional<T> take(std::vector<T>& from, Input& input) {
    if (from.empty()) {
        return std::nullopt;
    }
    const std::uint32_t at = input.below(static_cast<std::uint32_t>(from.size()));
    const T taken = from[at];
    from.erase(from.begin() + at);
    return taken;
}

void step(Host& host, Program& program, Input& input, std::int64_t now) {
    switch (input.below(10)) {
        case 0:
            call(host, program, input, now);
            break;
        case 1:
            if (const auto executing = take(host.executing, input)) {
                host.free(executing->call);
                host.connection.reply(executing->id,
                                      program.message(input, executing->xid, Direction::kReply));
            }
            break;
        case 2:
            // SENDs complete in order.
            if (!host.tokens.empty()) {
                const std::uint64_t token = host.tokens.front();
                host.tokens.erase(host.tokens.begin());
                host.connection.on_sent(token);
            }
            break;
        case 3:
            if (const auto read = take(host.reads, input)) {
                host.connection.on_read(*read, input.below(16) != 0);
            }
            break;
        case 4:
            if (const auto withdrawn = take(host.withdrawing, input)) {
                host.connection.on_withdrawn(*withdrawn);
            }
            break;
        case 5:
            host.connection.on_timer(now);
            host.has_no_memory = input.below(8) == 0;
            host.withdraws_later = input.flag();
            break;
        case 6:
            if (host.resized != 0) {
                host.connection.on_receives_resized(std::exchange(host.resized, 0));
            } else if (input.flag()) {
                (void)host.connection.request_receive_size(input.number<std::uint32_t>());
            } else {
                (void)host.connection.grow_receives(input.below(65536));
            }
            break;
        default:
            receive(host, input);
            break;
    }
}

}  // namespace
}  // namespace urnic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace urnic::fuzz;  // NOLINT(google-build-using-namespace)
    Input input(data, size);
    Config config;
    config.role = input.flag() ? Role::kServer : Role::kClient;
    config.versions = 2 + 2 * input.below(3);
    config.granted_credits = 1 + input.below(4);
    config.wanted_credits = 1 + input.below(4);
    config.limits.max_read_chunks = input.below(4);
    config.limits.max_write_chunks = input.below(4);
    config.limits.max_call_octets = 100000;
    config.backward = static_cast<BackwardSupport>(input.below(3));
    config.has_properties = input.flag();
    Host host(config);
    Program program;
    std::int64_t now = 1;
    for (; !input.empty() && now < 2000; ++now) {
        step(host, program, input, now);
    }
    host.is_down = true;
    host.connection.on_disconnected();
    for (const IncomingCall& call : host.executing) {
        host.free(call.call);
    }
    URNIC_CHECK(host.outstanding.empty() && host.buffers.empty());
    // What was being withdrawn went with the QP.
    return 0;
}
