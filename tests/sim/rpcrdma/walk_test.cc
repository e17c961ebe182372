// Random walks of two Connections: versions, limits, credits and sizes by a seed; Calls in both directions.
// The oracle: a Call arrives as it was sent, its Reply and results come back as they were given, it ends
// once, and what walk.h looks at. RPCRDMA_WALK_SEED=N replays one walk.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>

#include "tests/sim/rpcrdma/walk.h"
#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma::sim {
namespace {

using Random = std::mt19937_64;

std::size_t pick(Random& random, std::size_t below) { return below == 0 ? 0 : random() % below; }

Octets random_octets(Random& random, std::size_t octets) {
    Octets data(octets);
    const std::uint64_t seed = random();
    for (std::size_t i = 0; i < octets; ++i) {
        data[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 13U);
    }
    return data;
}

/// Mostly small, sometimes around the thresholds, seldom large.
std::size_t random_size(Random& random) {
    static constexpr std::array<std::size_t, 6> kEdges = {1024 - 36, 4096 - 36, 4096 - 28,
                                                          8192,      1024 - 28, 4096};
    switch (pick(random, 6)) {
        case 0:
            return kEdges[pick(random, kEdges.size())] + 4 * pick(random, 3) - 4;
        case 1:
            return pick(random, 20000);
        default:
            return pick(random, 600);
    }
}

/// An RPC message as a program gives it, and as it is with everything in place.
struct Message {
    Message(Random& random, std::uint32_t xid, Direction type, std::size_t most_items) {
        stream = random_octets(random, 8 + xdr_padded(random_size(random)));
        XdrWriter writer(stream);
        writer.u32(xid);
        writer.u32(static_cast<std::uint32_t>(type));
        std::size_t at = 8;
        data.reserve(most_items);
        for (std::size_t i = 0; i < most_items; ++i) {
            at += 4 * pick(random, (stream.size() - at) / 4 + 1);
            data.push_back(random_octets(random, random_size(random)));
            items.push_back({at, data.back()});
        }
    }
    [[nodiscard]] RpcMessage view() const { return {stream, items}; }
    /// The octets with all items but those for which `is_left_out`.
    template <class IsLeftOut>
    [[nodiscard]] Octets whole(IsLeftOut&& is_left_out) const {
        Octets all;
        std::size_t from = 0;
        for (std::size_t i = 0; i < items.size(); ++i) {
            all.insert(all.end(), stream.begin() + static_cast<std::ptrdiff_t>(from),
                       stream.begin() + static_cast<std::ptrdiff_t>(items[i].at));
            from = items[i].at;
            if (!is_left_out(i)) {
                all.insert(all.end(), data[i].begin(), data[i].end());
                all.resize(all.size() + xdr_padded(data[i].size()) - data[i].size());
            }
        }
        all.insert(all.end(), stream.begin() + static_cast<std::ptrdiff_t>(from), stream.end());
        return all;
    }
    Octets stream;
    std::vector<Octets> data;
    std::vector<Item> items;
};

struct CallRecord {
    std::unique_ptr<Message> call;
    std::vector<Octets> result_memory;
    std::vector<std::span<std::byte>> results;
    std::unique_ptr<Message> reply;  // what the other program has answered
    std::uint64_t max_reply = 0;
    bool has_ended = false;
    bool has_deadline = false;
};

/// One program: its calls, and those that it executes.
struct Program {
    WalkEnd* end = nullptr;
    Program* other = nullptr;
    std::map<std::uint64_t, CallRecord> calls;         // by token, which is the XID
    std::map<std::uint32_t, std::uint32_t> executing;  // id to XID
    std::map<CallStatus, std::uint64_t> ended;
    std::uint64_t resent = 0;
};

class Walk {
  public:
    explicit Walk(std::uint64_t seed);
    void run(std::size_t steps);
    [[nodiscard]] const std::map<CallStatus, std::uint64_t>& ended() const { return programs_[0].ended; }
    [[nodiscard]] std::uint64_t resent() const { return programs_[0].resent; }
    [[nodiscard]] Counters counters() { return ends_[0]->connection().counters(); }

  private:
    [[nodiscard]] Config random_config(Role role);
    void bind(std::size_t side);
    void start_call(Program& program);
    void answer(Program& program);
    void on_complete(Program& program, std::uint64_t token, const Completion& completion);
    void check_reply(const CallRecord& record, const Completion& completion);
    void on_execute(Program& program, const IncomingCall& call);
    void check_faults();
    void finish();

    Random random_;
    std::array<std::unique_ptr<WalkEnd>, 2> ends_;
    std::array<Program, 2> programs_;
    std::map<std::uint32_t, std::unique_ptr<Message>> replying_;
    std::uint32_t next_xid_ = 100;
    std::int64_t now_ns_ = 1;
    bool is_down_ = false;
    bool has_deadlines_ = false;
};

Config Walk::random_config(Role role) {
    Config config;
    config.role = role;
    config.versions =
        role == Role::kClient ? 0b110 : std::array<std::uint32_t, 3>{0b110, 0b100, 0b010}[pick(random_, 3)];
    config.receive_octets = std::array<std::uint32_t, 3>{4096, 8192, 65536}[pick(random_, 3)];
    config.send_octets = std::array<std::uint32_t, 2>{4096, 65536}[pick(random_, 2)];
    config.granted_credits = static_cast<std::uint32_t>(1 + pick(random_, 8));
    config.wanted_credits = static_cast<std::uint32_t>(1 + pick(random_, 8));
    config.backward = static_cast<BackwardSupport>(pick(random_, 3));
    config.can_offer_invalidation = pick(random_, 2) == 0;
    config.can_send_invalidation = pick(random_, 2) == 0;
    config.has_properties = pick(random_, 4) != 0;
    config.limits.max_read_chunks = static_cast<std::uint32_t>(pick(random_, 4));
    config.limits.max_write_chunks = static_cast<std::uint32_t>(pick(random_, 4));
    config.own_private_data = {4096, 4096, pick(random_, 2) == 0};
    return config;
}

Walk::Walk(std::uint64_t seed) : random_(seed) {
    std::array<Config, 2> configs = {random_config(Role::kClient), random_config(Role::kServer)};
    const bool has_windows = pick(random_, 2) == 0;
    for (std::size_t i = 0; i < 2; ++i) {
        configs[i].own_private_data.can_remote_invalidate =
            configs[i].own_private_data.can_remote_invalidate && has_windows;
    }
    configs[0].peer_private_data = configs[1].own_private_data;
    configs[1].peer_private_data = configs[0].own_private_data;
    has_deadlines_ = pick(random_, 4) == 0;
    for (std::size_t i = 0; i < 2; ++i) {
        ends_[i] = std::make_unique<WalkEnd>(configs[i], i == 0 ? 0xC0000001U : 0x50000001U, has_windows);
    }
    ends_[0]->set_peer(*ends_[1]);
    ends_[1]->set_peer(*ends_[0]);
    bind(0);
    bind(1);
}

void Walk::bind(std::size_t side) {
    Program& program = programs_[side];
    program.end = ends_[side].get();
    program.other = &programs_[1 - side];
    ends_[side]->set_program(
        [this, &program](std::uint64_t token, const Completion& completion) {
            on_complete(program, token, completion);
        },
        [this, &program](const IncomingCall& call) { on_execute(program, call); },
        [](std::uint32_t /*call*/) {});
}

void Walk::start_call(Program& program) {
    const std::uint32_t xid = next_xid_++;
    CallRecord& record = program.calls[xid];
    record.call = std::make_unique<Message>(random_, xid, Direction::kCall, pick(random_, 4));
    for (std::size_t i = 0; i < pick(random_, 3); ++i) {
        record.result_memory.push_back(Octets(1 + random_size(random_)));
    }
    for (Octets& memory : record.result_memory) {
        record.results.emplace_back(memory);
    }
    record.max_reply = 8 + random_size(random_);
    CallRequest request;
    request.xid = xid;
    request.message = record.call->view();
    request.results = record.results;
    request.max_reply_octets = record.max_reply;
    request.token = xid;
    record.has_deadline = has_deadlines_ && pick(random_, 8) == 0;
    request.deadline_ns =
        record.has_deadline ? now_ns_ + 1 + static_cast<std::int64_t>(pick(random_, 50)) : 0;
    program.end->connection().call(request, now_ns_);
}

void Walk::on_execute(Program& program, const IncomingCall& call) {
    const auto found = program.other->calls.find(call.xid);
    ASSERT_NE(found, program.other->calls.end());
    const Octets expected = found->second.call->whole([](std::size_t) { return false; });
    const Octets seen(call.call.octets.begin(),
                      call.call.octets.begin() + static_cast<std::ptrdiff_t>(call.call_octets));
    ASSERT_EQ(seen, expected) << "a Call arrives as it was sent";
    program.end->free(call.call);
    program.executing[call.id] = call.xid;
}

void Walk::answer(Program& program) {
    if (program.executing.empty()) {
        return;
    }
    auto chosen = program.executing.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(pick(random_, program.executing.size())));
    const auto [id, xid] = *chosen;
    program.executing.erase(chosen);
    CallRecord& record = program.other->calls[xid];
    // Sent again for want of room: the same answer. What it refers to stays until the walk ends.
    if (record.reply == nullptr) {
        record.reply = std::make_unique<Message>(random_, xid, Direction::kReply, pick(random_, 3));
    }
    program.end->connection().reply(id, record.reply->view());
}

void Walk::on_complete(Program& program, std::uint64_t token, const Completion& completion) {
    CallRecord& record = program.calls[token];
    ASSERT_FALSE(record.has_ended) << "a Call ends once";
    record.has_ended = true;
    ++program.ended[completion.status];
    program.resent += completion.resent;
    for (const Octets& memory : record.result_memory) {
        ASSERT_FALSE(program.end->is_exposed(memory)) << "memory of a Call that has ended";
    }
    ASSERT_FALSE(program.end->is_exposed(record.call->stream));
    for (const Octets& item : record.call->data) {
        ASSERT_FALSE(!item.empty() && program.end->is_exposed(item));
    }
    if (completion.status == CallStatus::kReplied) {
        check_reply(record, completion);
        program.end->free(completion.reply);
    }
}

void Walk::check_reply(const CallRecord& record, const Completion& completion) {
    ASSERT_NE(record.reply, nullptr) << "a Reply that nobody has given";
    const Message& reply = *record.reply;
    const Octets seen(completion.reply.octets.begin(),
                      completion.reply.octets.begin() + static_cast<std::ptrdiff_t>(completion.reply_octets));
    std::set<std::size_t> in_chunks;
    for (std::size_t i = 0; i < kMaxWriteChunks; ++i) {
        if (completion.result_octets[i] != 0) {
            in_chunks.insert(i);
            ASSERT_LT(i, reply.data.size());
            const Octets result(record.result_memory[i].begin(),
                                record.result_memory[i].begin() + completion.result_octets[i]);
            ASSERT_EQ(result, reply.data[i]) << "a result comes back as it was given";
        }
    }
    ASSERT_EQ(seen, reply.whole([&](std::size_t i) { return in_chunks.contains(i); }))
        << "a Reply comes back as it was given";
}

void Walk::check_faults() {
    for (const auto& end : ends_) {
        ASSERT_TRUE(end->faults.empty()) << end->faults.front();
    }
    if (is_down_ || (!ends_[0]->wants_close() && !ends_[1]->wants_close())) {
        return;
    }
    // Only a Call that has timed out may have its chunks used afterwards; a server of other versions may
    // refuse.
    const bool has_reason = has_deadlines_ || ends_[0]->close_reason() == CloseReason::kNoCommonVersion;
    ASSERT_TRUE(has_reason) << "the connection ends: " << static_cast<int>(ends_[0]->close_reason()) << ", "
                            << static_cast<int>(ends_[1]->close_reason());
    is_down_ = true;
    ends_[0]->disconnect();
    ends_[1]->disconnect();
}

void Walk::run(std::size_t steps) {
    for (std::size_t i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) {
        ++now_ns_;
        Program& program = programs_[pick(random_, 2)];
        switch (pick(random_, 8)) {
            case 0:
                start_call(programs_[pick(random_, 4) == 0 ? 1 : 0]);
                break;
            case 1:
                answer(program);
                break;
            case 2:
                program.end->connection().on_timer(now_ns_);
                if (pick(random_, 20) == 0) {
                    static_cast<void>(program.end->connection().request_receive_size(
                        static_cast<std::uint32_t>(pick(random_, 70000))));
                }
                break;
            default:
                program.end->step(static_cast<std::uint32_t>(random_()));
                break;
        }
        check_faults();
    }
    if (!testing::Test::HasFatalFailure()) {
        finish();
    }
}

/// Everything that can end ends; the connection's end does the rest.
void Walk::finish() {
    for (int round = 0; round < 100000 && !is_down_; ++round) {
        now_ns_ += 100;
        bool is_idle = true;
        for (Program& program : programs_) {
            program.end->connection().on_timer(now_ns_);
            is_idle = !program.end->step(static_cast<std::uint32_t>(random_())) &&
                      program.executing.empty() && is_idle;
            answer(program);
        }
        check_faults();
        if (is_idle || testing::Test::HasFatalFailure()) {
            break;
        }
    }
    const bool had_end = is_down_;
    for (Program& program : programs_) {
        for (const auto& [token, record] : program.calls) {
            // A server cannot call before its client has; a late Call keeps its credit.
            const bool may_wait = &program == &programs_[1] || has_deadlines_;
            ASSERT_TRUE(record.has_ended || had_end || may_wait) << "Call " << token << " has not ended";
        }
    }
    ends_[0]->disconnect();
    ends_[1]->disconnect();
    for (Program& program : programs_) {
        for (const auto& [token, record] : program.calls) {
            ASSERT_TRUE(record.has_ended) << "Call " << token << " has not ended with its connection";
        }
        ASSERT_EQ(program.end->buffers(), 0U) << "buffers that nobody has freed";
        ASSERT_EQ(program.end->exposures(), 0U);
    }
}

TEST(RpcRdmaWalk, CallsInBothDirections) {
    const char* only = std::getenv("RPCRDMA_WALK_SEED");
    const std::uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 0) : std::random_device()();
    const std::uint64_t walks = only != nullptr ? 1 : 120;
    std::map<CallStatus, std::uint64_t> ended;
    std::uint64_t resent = 0;
    Counters sum;
    for (std::uint64_t seed = first; seed < first + walks; ++seed) {
        SCOPED_TRACE("RPCRDMA_WALK_SEED=" + std::to_string(seed));
        Walk walk(seed);
        walk.run(2000);
        if (HasFatalFailure()) {
            return;
        }
        for (const auto& [status, count] : walk.ended()) {
            ended[status] += count;
        }
        resent += walk.resent();
        sum.remote_invalidations += walk.counters().remote_invalidations;
        sum.local_invalidations += walk.counters().local_invalidations;
    }
    std::cout << "seeds " << first << " to " << first + walks - 1 << "; ended:";
    for (const auto& [status, count] : ended) {
        std::cout << " " << static_cast<int>(status) << ":" << count;
    }
    std::cout << "; resent " << resent << ", invalidated by the peer " << sum.remote_invalidations
              << ", here " << sum.local_invalidations << "\n";
    if (only == nullptr) {
        EXPECT_GT(ended[CallStatus::kReplied], 1000U);
        EXPECT_GT(ended[CallStatus::kRemoteError], 0U);
        EXPECT_GT(ended[CallStatus::kTimedOut], 0U);
        EXPECT_GT(resent, 0U);
        EXPECT_GT(sum.remote_invalidations, 0U);
    }
}

}  // namespace
}  // namespace urnic::rpcrdma::sim
