#include "conform/live/agent.h"

#include <algorithm>
#include <charconv>

namespace urnic::conform {

namespace {

constexpr std::size_t kMaxTransfer = 32768;

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        if (end != at) {
            words.push_back(text.substr(at, end - at));
        }
        at = end + 1;
    }
    return words;
}

std::vector<std::string> split(const std::string& text, char by) {
    std::vector<std::string> parts;
    std::size_t at = 0;
    for (;;) {
        const std::size_t end = text.find(by, at);
        parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
        if (end == std::string::npos) {
            return parts;
        }
        at = end + 1;
    }
}

[[noreturn]] void no_answer(const std::string& line, const std::string& answer) {
    throw BenchFailed("the agent answered '" + answer.substr(0, 200) + "' to '" + line.substr(0, 200) +
                      "'; it speaks another version, or is none");
}

char digit(unsigned value) { return "0123456789abcdef"[value & 15U]; }

int value_of(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string gid_digits(const Gid& gid) {
    std::string text;
    for (const std::uint8_t byte : gid) {
        text += digit(byte >> 4U);
        text += digit(byte);
    }
    return text;
}

std::uint64_t agent_number(const std::string& text) {
    const bool is_hex = text.starts_with("0x");
    std::uint64_t value = 0;
    const char* begin = text.data() + (is_hex ? 2 : 0);
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(begin, end, value, is_hex ? 16 : 10);
    if (error != std::errc{} || rest != end) {
        throw BenchFailed("the agent answered '" + text.substr(0, 80) + "' where a number belongs");
    }
    return value;
}

int Agent::try_ask(const std::string& line, std::string& answer) {
    answer = channel_.call(line);
    if (answer == "ok" || answer.starts_with("ok ")) {
        return 0;
    }
    const std::vector<std::string> words = words_of(answer);
    if (words.size() < 2 || words[0] != "error") {
        no_answer(line, answer);
    }
    const std::uint64_t error = agent_number(words[1]);
    return error == 0 || error > 4095 ? 5 : static_cast<int>(error);
}

std::vector<std::string> Agent::ask(const std::string& line) {
    std::string answer;
    if (try_ask(line, answer) != 0) {
        throw BenchFailed("agent: " + answer.substr(0, 200) + " (asked: " + line.substr(0, 120) + ")");
    }
    std::vector<std::string> words = words_of(answer);
    words.erase(words.begin());
    return words;
}

void Agent::hello() { (void)ask("hello " + std::to_string(kAgentVersion)); }

std::map<std::string, std::string> Agent::open(const std::string& device, const Gid& gid) {
    std::map<std::string, std::string> facts;
    for (const std::string& word : ask("open " + (device.empty() ? "-" : device) + " " + gid_digits(gid))) {
        const std::size_t equals = word.find('=');
        if (equals != std::string::npos) {
            facts[word.substr(0, equals)] = word.substr(equals + 1);
        }
    }
    return facts;
}

std::uint64_t Agent::arena(std::size_t bytes) {
    const std::vector<std::string> words = ask("arena " + std::to_string(bytes));
    if (words.size() != 1) {
        no_answer("arena", "");
    }
    return agent_number(words[0]);
}

void Agent::reset() { (void)ask("reset"); }

void Agent::fill(std::size_t offset, std::size_t length, std::uint32_t seed) {
    (void)ask("fill " + std::to_string(offset) + " " + std::to_string(length) + " " + std::to_string(seed));
}

void Agent::put(std::size_t offset, std::span<const std::byte> data) {
    while (!data.empty()) {
        const auto part = data.first(std::min(data.size(), kMaxTransfer));
        std::string line = "put " + std::to_string(offset) + " ";
        for (const std::byte byte : part) {
            line += digit(std::to_integer<unsigned>(byte) >> 4U);
            line += digit(std::to_integer<unsigned>(byte));
        }
        (void)ask(line);
        offset += part.size();
        data = data.subspan(part.size());
    }
}

void Agent::get(std::size_t offset, std::span<std::byte> data) {
    while (!data.empty()) {
        const auto part = data.first(std::min(data.size(), kMaxTransfer));
        const std::vector<std::string> words =
            ask("get " + std::to_string(offset) + " " + std::to_string(part.size()));
        if (words.size() != 1 || words[0].size() != 2 * part.size()) {
            throw BenchFailed("the agent answered with too few or too many bytes of memory");
        }
        for (std::size_t i = 0; i < part.size(); ++i) {
            const int high = value_of(words[0][2 * i]);
            const int low = value_of(words[0][2 * i + 1]);
            if (high < 0 || low < 0) {
                throw BenchFailed("the agent answered with something else than bytes of memory");
            }
            part[i] = static_cast<std::byte>(high * 16 + low);
        }
        offset += part.size();
        data = data.subspan(part.size());
    }
}

AgentKeys Agent::register_memory(std::size_t offset, std::size_t length, std::uint32_t access) {
    const std::vector<std::string> words =
        ask("mr " + std::to_string(offset) + " " + std::to_string(length) + " " + std::to_string(access));
    if (words.size() != 3) {
        no_answer("mr", "");
    }
    return {static_cast<std::uint32_t>(agent_number(words[0])),
            static_cast<std::uint32_t>(agent_number(words[1])),
            static_cast<std::uint32_t>(agent_number(words[2]))};
}

std::vector<std::string> Agent::ask_device(const std::string& line, std::size_t words,
                                           const std::string& what) {
    std::string answer;
    if (try_ask(line, answer) != 0) {
        throw NotApplicable("the device makes no such " + what + ": " + answer.substr(0, 120));
    }
    std::vector<std::string> parts = words_of(answer);
    parts.erase(parts.begin());
    if (parts.size() != words) {
        no_answer(line, answer);
    }
    return parts;
}

AgentWindow Agent::allocate_window() {
    const std::vector<std::string> words = ask_device("mw 2", 2, "memory window");
    return {static_cast<std::uint32_t>(agent_number(words[0])),
            static_cast<std::uint32_t>(agent_number(words[1]))};
}

std::uint32_t Agent::make_address_handle(const Gid& gid, std::uint8_t traffic_class, std::uint8_t sl) {
    const std::string service_level = sl == 0 ? "" : " " + std::to_string(sl);
    const std::vector<std::string> words = ask_device(
        "ah " + gid_digits(gid) + " " + std::to_string(traffic_class) + service_level, 1, "address handle");
    return static_cast<std::uint32_t>(agent_number(words[0]));
}

AgentQp Agent::create_qp(const QpOptions& options) {
    std::string line = "qp " + std::to_string(static_cast<unsigned>(options.type));
    for (const std::uint32_t value : {options.send_entries, options.recv_entries, options.max_sge,
                                      options.max_inline, options.sq_sig_all ? 1U : 0U, options.cq_entries}) {
        line += " " + std::to_string(value);
    }
    const std::vector<std::string> words = ask_device(line, 2, "QP");
    return {static_cast<std::uint32_t>(agent_number(words[0])),
            static_cast<std::uint32_t>(agent_number(words[1])) & 0xff'ffffU};
}

AgentSrq Agent::create_srq(std::uint32_t qp, const QpOptions& options) {
    const std::vector<std::string> words =
        ask_device("srq " + std::to_string(qp) + " " + std::to_string(options.recv_entries) + " " +
                       std::to_string(options.max_sge),
                   2, "XRC SRQ");
    return {static_cast<std::uint32_t>(agent_number(words[0])),
            static_cast<std::uint32_t>(agent_number(words[1])) & 0xff'ffffU};
}

int Agent::modify(std::uint32_t qp, const std::string& attributes) {
    std::string answer;
    return try_ask("modify " + std::to_string(qp) + " " + attributes, answer);
}

AgentQpState Agent::query(std::uint32_t qp) {
    const std::vector<std::string> words = ask("query " + std::to_string(qp));
    if (words.size() < 2) {
        no_answer("query", "");
    }
    return {static_cast<QpState>(agent_number(words[0])), agent_number(words[1]) != 0};
}

int Agent::send(std::uint32_t qp, const std::vector<std::string>& requests) {
    std::string line = "send " + std::to_string(qp);
    for (const std::string& request : requests) {
        line += " " + request;
    }
    std::string answer;
    return try_ask(line, answer);
}

int Agent::post_receive(const std::string& request, std::uint32_t index, std::uint64_t wr_id,
                        const std::vector<abi::Sge>& sge) {
    std::string line = request + " " + std::to_string(index) + " " + std::to_string(wr_id);
    for (const abi::Sge& entry : sge) {
        line += "," + std::to_string(entry.addr) + ":" + std::to_string(entry.length) + ":" +
                std::to_string(entry.lkey);
    }
    std::string answer;
    return try_ask(line, answer);
}

std::vector<SeenCompletion> Agent::poll(std::uint32_t qp, bool recv) {
    std::vector<SeenCompletion> list;
    const std::vector<std::string> words = ask("poll " + std::to_string(qp) + (recv ? " 1" : " 0"));
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::vector<std::string> parts = split(words[i], ':');
        if (parts.size() != 6) {
            no_answer("poll", words[i]);
        }
        SeenCompletion wc;
        wc.wr_id = agent_number(parts[0]);
        wc.status = static_cast<WcStatus>(agent_number(parts[1]));
        wc.opcode = static_cast<std::uint8_t>(agent_number(parts[2]));
        wc.byte_len = static_cast<std::uint32_t>(agent_number(parts[3]));
        wc.flags = static_cast<std::uint32_t>(agent_number(parts[4]));
        wc.imm_or_rkey = static_cast<std::uint32_t>(agent_number(parts[5]));
        list.push_back(wc);
    }
    return list;
}

std::vector<AsyncEventType> Agent::events() {
    std::vector<AsyncEventType> list;
    for (const std::string& word : ask("events")) {
        list.push_back(static_cast<AsyncEventType>(agent_number(word)));
    }
    return list;
}

}  // namespace urnic::conform
