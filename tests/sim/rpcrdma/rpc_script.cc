#include "tests/sim/rpcrdma/rpc_script.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>

#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma::sim {

namespace {

std::string hex(std::uint64_t value) {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%llx", static_cast<unsigned long long>(value));
    return text.data();
}

const char* name_of(CallStatus status) {
    static constexpr std::array kNames = {
        "replied", "timed-out", "disconnected", "version-refused",  "bad-reply",
        "error",   "too-large", "no-memory",    "backward-refused", "duplicate-xid"};
    return kNames[static_cast<std::size_t>(status)];
}

const char* name_of(CloseReason reason) {
    static constexpr std::array kNames = {"none",       "wrong-invalidation", "credits-exceeded",
                                          "no-version", "unanswerable",       "read-failed"};
    return kNames[static_cast<std::size_t>(reason)];
}

void put_word(Octets& octets, std::uint32_t word) {
    for (unsigned shift = 32; shift != 0;) {
        shift -= 8;
        octets.push_back(static_cast<std::byte>(word >> shift));
    }
}

std::uint32_t word_at(std::span<const std::byte> octets, std::size_t at) {
    XdrReader reader(octets.subspan(at));
    return reader.u32();
}

/// Words in hexadecimal up to an RPC message of that XID, which is "call:N" or "reply:N".
std::string text_of(std::span<const std::byte> octets) {
    std::string text;
    const std::uint32_t xid = word_at(octets, 0);
    for (std::size_t at = 0; at + 4 <= octets.size(); at += 4) {
        const std::span<const std::byte> rest = octets.subspan(at);
        for (const Direction type : {Direction::kCall, Direction::kReply}) {
            const Octets whole = rpc_message(xid, type, rest.size());
            if (at >= 28 && rest.size() >= 12 && std::equal(rest.begin(), rest.end(), whole.begin())) {
                return text + (type == Direction::kCall ? " call:" : " reply:") + std::to_string(rest.size());
            }
        }
        text += (text.empty() ? "" : " ") + hex(word_at(octets, at));
    }
    return text;
}

}  // namespace

Octets pattern(std::size_t octets, std::uint32_t seed) {
    Octets data(octets);
    for (std::size_t i = 0; i < octets; ++i) {
        data[i] = static_cast<std::byte>((i * 2654435761U + seed * 40503U) >> 13U);
    }
    return data;
}

Octets rpc_message(std::uint32_t xid, Direction type, std::size_t octets) {
    Octets data;
    put_word(data, xid);
    put_word(data, static_cast<std::uint32_t>(type));
    const Octets rest = pattern(octets > 8 ? octets - 8 : 0, xid);
    data.insert(data.end(), rest.begin(), rest.end());
    data.resize(octets);
    return data;
}

Octets message_of(std::string_view text) {
    Octets octets;
    std::istringstream words{std::string(text)};
    for (std::string word; words >> word;) {
        const std::size_t colon = word.find(':');
        if (colon != std::string::npos) {
            const std::size_t dash = word.find('-');
            const std::size_t from = dash == std::string::npos ? 0 : std::stoul(word.substr(colon + 1));
            const std::size_t to = std::stoul(word.substr((dash == std::string::npos ? colon : dash) + 1));
            const Octets rpc =
                rpc_message(word_at(octets, 0), word[0] == 'c' ? Direction::kCall : Direction::kReply, to);
            octets.insert(octets.end(), rpc.begin() + static_cast<std::ptrdiff_t>(from), rpc.end());
        } else if (word != "/") {
            put_word(octets, static_cast<std::uint32_t>(std::stoul(word, nullptr, 16)));
        }
    }
    return octets;
}

// --- life

RpcScript::~RpcScript() = default;

void RpcScript::TearDown() {
    if (!HasFailure()) {
        does({});
    }
    if (connection_ != nullptr) {
        connection_->on_disconnected();
    }
    for (const IncomingCall& call : executing_) {
        free(call.call);
    }
    EXPECT_TRUE(buffers_.empty()) << "buffers that nobody has freed";
}

void RpcScript::client(const Config& config) {
    Config its = config;
    its.role = Role::kClient;
    connection_ = std::make_unique<Connection>(its, *this);
}

void RpcScript::server(Config config) {
    config.role = Role::kServer;
    connection_ = std::make_unique<Connection>(config, *this);
}

void RpcScript::open_server(const Config& config) {
    server(config);
    peer("1 2 20 0 / 0 0 / 0 0 0 / call:40");
    reply();
    sent();
    effects_.clear();
}

void RpcScript::open_client(std::uint32_t credits, const Config& config) {
    client(config);
    call({.xid = 1});
    peer("1 2 " + hex(credits) + " 0 / 1 0 / 0 0 0 / reply:40");
    effects_.clear();
    next_token_ = 1;
}

// --- the program

void RpcScript::call(const Call& call) {
    Program& program = *programs_.emplace_back(std::make_unique<Program>());
    program.stream = rpc_message(call.xid, Direction::kCall, call.octets);
    program.item = pattern(call.item_octets, 3);
    if (call.item_at != 0) {
        program.items.push_back({call.item_at, program.item});
    }
    for (const std::size_t octets : call.results) {
        program.result_memory.emplace_back(octets);
    }
    for (Octets& memory : program.result_memory) {
        program.results.emplace_back(memory);
    }
    CallRequest request;
    request.xid = call.xid;
    request.message = {program.stream, program.items};
    request.results = program.results;
    request.max_reply_octets = call.max_reply;
    request.deadline_ns = call.deadline_ns;
    request.token = next_token_++;
    connection_->call(request, now_ns_);
}

void RpcScript::reply(const Reply& reply) {
    ASSERT_FALSE(executing_.empty()) << "no Call was executed";
    const IncomingCall call = executing_.front();
    executing_.pop_front();
    free(call.call);
    Program& program = *programs_.emplace_back(std::make_unique<Program>());
    program.stream = rpc_message(call.xid, Direction::kReply, reply.octets);
    program.item = pattern(reply.item_octets, 5);
    program.second_item = pattern(reply.second_item_octets, 6);
    if (reply.item_at != 0) {
        program.items.push_back({reply.item_at, program.item});
    }
    if (reply.second_item_octets != 0) {
        program.items.push_back({reply.octets, program.second_item});
    }
    reply_status_ = connection_->reply(call.id, {program.stream, program.items});
}

void RpcScript::drop() {
    free(executing_.front().call);
    connection_->drop(executing_.front().id);
    executing_.pop_front();
}

// --- the peer and the RNIC

void RpcScript::peer(std::string_view message, std::uint32_t invalidated) {
    peer_octets(message_of(message), invalidated);
}

void RpcScript::peer_octets(const Octets& message, std::uint32_t invalidated) {
    history_.push_back("peer " + (message.size() < 4 ? "(short)" : text_of(message)));
    connection_->on_receive(message, invalidated);
}

void RpcScript::sent() {
    ASSERT_FALSE(tokens_.empty()) << "no SEND with a token";
    const std::uint64_t token = tokens_.front();
    tokens_.pop_front();
    connection_->on_sent(token);
}

void RpcScript::read_done(bool ok) {
    ASSERT_FALSE(reads_.empty()) << "no READ";
    const PendingRead read = reads_.front();
    reads_.pop_front();
    const Octets& memory = peer_memory[read.from.handle];
    // The peer's memory at a handle begins at offset 1000 (hexadecimal).
    const std::uint64_t at = read.from.offset - 0x1000;
    if (ok) {
        ASSERT_LE(at + read.from.length, memory.size())
            << "reads beyond the memory of handle " << hex(read.from.handle);
        std::copy_n(memory.begin() + static_cast<std::ptrdiff_t>(at), read.from.length, read.into.begin());
    }
    connection_->on_read(read.call, ok);
}

void RpcScript::withdrawn() {
    ASSERT_FALSE(withdrawing_.empty()) << "nothing is being withdrawn";
    const std::uint32_t call = withdrawing_.front();
    withdrawing_.pop_front();
    connection_->on_withdrawn(call);
}

void RpcScript::disconnected() {
    withdrawing_.clear();
    reads_.clear();
    tokens_.clear();
    connection_->on_disconnected();
}

void RpcScript::time(std::int64_t now_ns) {
    now_ns_ = now_ns;
    connection_->on_timer(now_ns);
}

void RpcScript::resized(std::uint32_t octets) { connection_->on_receives_resized(octets); }

void RpcScript::does(const std::vector<std::string>& effects, Where where) {
    std::vector<std::string> expected;
    for (const std::string& effect : effects) {
        // "/" is for the reader.
        std::istringstream words(effect);
        std::string plain;
        for (std::string word; words >> word;) {
            plain += word == "/" ? "" : (plain.empty() ? "" : " ") + word;
        }
        expected.push_back(plain);
    }
    const std::vector<std::string> seen = std::exchange(effects_, {});
    if (seen == expected) {
        return;
    }
    std::ostringstream text;
    text << "expected:\n";
    for (const std::string& line : expected) {
        text << "    " << line << "\n";
    }
    text << "seen:\n";
    for (const std::string& line : seen) {
        text << "    " << line << "\n";
    }
    text << "all so far:\n";
    for (const std::string& line : history_) {
        text << "    " << line << "\n";
    }
    GTEST_FAIL_AT(where.file, where.line) << text.str();
}

// --- the outbox

Buffer RpcScript::allocate(std::size_t octets) {
    if (!std::exchange(has_memory_, true)) {
        return {};
    }
    const std::uint64_t cookie = next_cookie_++;
    Octets& memory = buffers_[cookie];
    memory.resize(std::max<std::size_t>(octets, 1));
    return {memory, cookie};
}

void RpcScript::free(const Buffer& buffer) {
    EXPECT_EQ(buffers_.erase(buffer.cookie), 1U) << "a buffer freed twice";
}

bool RpcScript::expose(std::span<const std::byte> memory, Access /*access*/, Exposure& out) {
    if (!std::exchange(has_memory_, true)) {
        return false;
    }
    out.segment = {next_handle_++, static_cast<std::uint32_t>(memory.size()), 0x1000};
    out.can_remote_invalidate = has_windows;
    return true;
}

bool RpcScript::withdraw(std::uint32_t call, std::span<const Exposure> exposures, std::uint32_t invalidated) {
    std::string line = "withdraw";
    for (const Exposure& exposure : exposures) {
        line += " " + hex(exposure.segment.handle) +
                (exposure.segment.handle == invalidated ? "(invalidated)" : "");
    }
    effects_.push_back(line);
    history_.push_back(line);
    if (withdraws_later_) {
        withdrawing_.push_back(call);
    }
    return !withdraws_later_;
}

void RpcScript::send(const OutgoingMessage& message) {
    Octets octets(message.header.begin(), message.header.end());
    for (const std::span<const std::byte> piece : message.payload) {
        octets.insert(octets.end(), piece.begin(), piece.end());
    }
    const std::string kind = message.invalidate == 0 ? "send " : "send+inv:" + hex(message.invalidate) + " ";
    effects_.push_back(kind + text_of(octets));
    history_.push_back(effects_.back());
    if (message.token != 0) {
        tokens_.push_back(message.token);
    }
}

void RpcScript::read(std::uint32_t call, const Segment& from, std::span<std::byte> into) {
    EXPECT_EQ(into.size(), from.length);
    effects_.push_back("read " + hex(from.handle) + " " + hex(from.offset) + " " + hex(from.length));
    history_.push_back(effects_.back());
    reads_.push_back({call, from, into});
}

void RpcScript::write(std::span<const std::byte> from, const Segment& to) {
    EXPECT_EQ(from.size(), to.length);
    effects_.push_back("write " + hex(to.handle) + " " + hex(to.offset) + " " + hex(to.length));
    history_.push_back(effects_.back());
}

void RpcScript::resize_receives(std::uint32_t octets) {
    effects_.push_back("resize " + std::to_string(octets));
}

void RpcScript::complete(std::uint64_t token, const Completion& completion) {
    std::string line = "complete " + std::to_string(token) + " " + name_of(completion.status);
    if (completion.status == CallStatus::kRemoteError) {
        line += " " + std::to_string(static_cast<unsigned>(completion.error.code)) + " " +
                std::to_string(completion.error.first) + " " + std::to_string(completion.error.second);
    }
    if (completion.status == CallStatus::kReplied) {
        line += " " + std::to_string(completion.reply_octets);
        for (const std::uint32_t octets : completion.result_octets) {
            line += octets != 0 ? " result:" + std::to_string(octets) : "";
        }
        const std::span<std::byte> reply = completion.reply.octets.first(completion.reply_octets);
        completed_.assign(reply.begin(), reply.end());
        free(completion.reply);
    }
    effects_.push_back(line);
    history_.push_back(line);
}

void RpcScript::execute(const IncomingCall& call) {
    effects_.push_back("execute " + hex(call.xid) + " " + std::to_string(call.call_octets));
    history_.push_back(effects_.back());
    const std::span<std::byte> octets = call.call.octets.first(call.call_octets);
    executed_.assign(octets.begin(), octets.end());
    xids_[call.id] = call.xid;
    executing_.push_back(call);
}

void RpcScript::replied(std::uint32_t call) {
    effects_.push_back("replied " + hex(xids_[call]));
    history_.push_back(effects_.back());
}

void RpcScript::close(CloseReason reason) {
    effects_.push_back(std::string("close ") + name_of(reason));
    history_.push_back(effects_.back());
}

}  // namespace urnic::rpcrdma::sim
