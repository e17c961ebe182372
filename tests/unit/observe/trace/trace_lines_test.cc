// What files of traces look like, byte by byte: every event, of every part that makes some.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>

#include "observe/trace/json_text.h"
#include "observe/trace/packet_trace.h"
#include "rnic/wire/blank_header.h"

namespace urnic::trace {
namespace {

constexpr std::uint32_t kStoryQpn = 0x11;
constexpr std::uint64_t kBegin = 1'700'000'000'123'456'789;

/// One QP of a device, and what it does at each time after the one before.
class Story {
  public:
    Story(TraceOutput& output, std::string device) : device_(std::move(device)), events_(output, {}) {}

    NotedPacket packet(std::uint8_t opcode, std::uint32_t psn, abi::PacketFate fate) {
        NotedPacket made;
        made.time_ns = now();
        made.device = device_;
        made.qpn = kStoryQpn;
        made.is_sent = fate == abi::PacketFate::kSent || fate == abi::PacketFate::kRetransmission;
        made.fate.fate = fate;
        made.state = QpState::kRts;
        made.next_psn = 9;
        made.header = wire::kBlankHeader;
        made.header.opcode = opcode;
        made.header.psn = Psn(psn);
        made.header.dest_qp = 0xfffffe;
        made.payload_bytes = 4096;
        return made;
    }
    void answer(std::uint8_t syndrome, std::uint32_t psn) {
        NotedPacket made = packet(wire::kAcknowledge, psn, abi::PacketFate::kDelivered);
        made.header.aeth = {syndrome, 0xabcdef};
        made.payload_bytes = 0;
        events_.add(made);
    }
    void packets() {
        events_.add(packet(wire::kWriteFirst, 5, abi::PacketFate::kSent));
        NotedPacket last = packet(wire::kWriteLastImm, 6, abi::PacketFate::kSent);
        last.header.ack_req = true;
        events_.add(last);
        answer(wire::kNakPsnSequenceError, 5);
        events_.add(packet(wire::kWriteFirst, 5, abi::PacketFate::kRetransmission));
        answer(wire::kSyndromeRnrNak | 12, 5);
        events_.add(packet(wire::kWriteFirst, 5, abi::PacketFate::kRetransmission));
        answer(0x7f, 5);  // a reserved NAK code
        answer(wire::kSyndromeAck | 31, 6);
        events_.add(packet(wire::kWriteFirst, 5, abi::PacketFate::kRetransmission));
        NotedPacket dropped = packet(wire::kSendOnly, 7, abi::PacketFate::kDropped);
        dropped.fate.drop = 3;
        dropped.state.reset();
        events_.add(dropped);
        for (const auto fate :
             {abi::PacketFate::kDuplicate, abi::PacketFate::kEarlyKept, abi::PacketFate::kEarlyDropped,
              abi::PacketFate::kNoReceive, abi::PacketFate::kRefused}) {
            events_.add(packet(wire::kSendOnlyInvalidate, 8, fate));
        }
        events_.add(packet(wire::kCnp, 0, abi::PacketFate::kSent));
        events_.add(packet(wire::kCnp, 0, abi::PacketFate::kDelivered));
        events_.add(packet(0xff, 0, abi::PacketFate::kSent));  // a reserved opcode
        events_.add_error_state(device_, kStoryQpn, now());
        events_.add_error_state(device_, kStoryQpn + 1, now());
    }
    void work() {
        abi::CapturedWqe wqe{};
        wqe.wr_id = ~std::uint64_t{0};
        wqe.length_bytes = 0xffff'ffff'ffff;
        wqe.wqe_index = 0xffff'ffff;
        wqe.first_psn = 9;
        wqe.opcode = static_cast<std::uint8_t>(WrOpcode::kFetchAdd);
        events_.add_wqe(device_, kStoryQpn, now(), wqe);
        wqe.is_reused = 1;
        events_.add_wqe(device_, kStoryQpn, now(), wqe);
        wqe.is_recv = 1;
        events_.add_wqe(device_, kStoryQpn, now(), wqe);
        events_.add(packet(wire::kWriteOnly, 9, abi::PacketFate::kSent));
        answer(wire::kSyndromeAck | 3, 9);
        abi::CapturedCompletion completion{};
        completion.wr_id = 0x7;
        completion.byte_len = 65536;
        completion.opcode = static_cast<std::uint8_t>(WcOpcode::kRecvRdmaWithImm);
        completion.is_recv = 1;
        completion.is_solicited = 1;
        events_.add_completion(device_, kStoryQpn, now(), completion);
        completion = {};
        completion.status = static_cast<std::uint8_t>(WcStatus::kRnrRetryExcErr);
        events_.add_completion(device_, kStoryQpn, now(), completion);
    }
    void rates() {
        abi::CapturedRate rate{};
        rate.cause = abi::RateCause::kSettings;
        events_.add_rate(device_, kStoryQpn, now(), rate);
        rate = {12'345'678'901, 25'000'000'000, 3, 333'333, abi::RateCause::kCnp, {}};
        events_.add_rate(device_, kStoryQpn, now(), rate);
        rate.alpha_ppm = 1'000'000;
        events_.add_rate(device_, kStoryQpn, now(), rate);
        rate.alpha_ppm = 1;
        events_.add_rate(device_, kStoryQpn, now(), rate);
        rate.alpha_ppm = 0;
        events_.add_rate(device_, kStoryQpn, now(), rate);
        abi::CapturedTimer timer{};
        timer.timer = 2;
        timer.retries = 3;
        timer.retry_limit = 7;
        events_.add_timer(device_, kStoryQpn, now(), timer);
        abi::CapturedPause pause{};
        pause.paused = 0b1001;
        events_.add_pause(device_, now(), pause);
        pause = {0, 0b1000, 1, {}};
        events_.add_pause(device_, now(), pause);
    }
    /// As a file has it that somebody else may have written.
    void frame(std::uint64_t time_ns, const std::string& comment) {
        // LRH (from LID 2 to LID 1), BTH (RC ACK to QP 0x11, PSN 5), AETH, ICRC, VCRC.
        constexpr std::uint8_t kBytes[30] = {0x00, 0x02, 0x00, 0x01, 0x00, 0x07, 0x00, 0x02,
                                             0x11, 0x40, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11,
                                             0x80, 0x00, 0x00, 0x05, 0x1f, 0x00, 0x00, 0x01};
        events_.add(CapturedFrame{wire::LinkLayer::kInfiniBand, std::as_bytes(std::span(kBytes)),
                                  sizeof kBytes, time_ns, device_, false, comment});
    }
    void frames() {
        frame(kBegin - 1'500'000, "");
        frame(now(), "fate=delivered qpn=0x11 state=RTS expected_psn=1 next_psn=9");
        frame(now(), "fate=dropped\tdrop=drop_pkey  qpn=17");
        frame(now(), "fate=dropped qpn=17 qpn=18");
        frame(now(), "fate=\"odd\\ qpn=0x11 state=\x01\x1f\x7f state=\xc3\xa4\xff\xe2\x82 next_psn=0x10");
        frame(now(), "fate=delivered state=RTS");
        frame(now(), "a comment of somebody=else = ==");
    }
    void finish(TraceOutput& output) {
        events_.add(packet(wire::kSendFirst, 10, abi::PacketFate::kSent));
        time_ns_ = std::numeric_limits<std::uint64_t>::max();
        events_.add(packet(wire::kSendLast, 11, abi::PacketFate::kSent));
        output.finish();
    }

  private:
    /// Of different digits.
    std::uint64_t now() {
        time_ns_ += step_;
        step_ = step_ * 3 + 1;
        step_ %= 1'000'000'007;
        return time_ns_;
    }

    std::string device_;
    PacketTrace events_;
    std::uint64_t time_ns_ = kBegin;
    std::uint64_t step_ = 0;
};

template <class Output, class... Options>
std::string told(const std::string& device, const Options&... options) {
    std::ostringstream out;
    Output output(out, options...);
    Story story(output, device);
    story.packets();
    story.work();
    story.rates();
    story.frames();
    story.finish(output);
    return out.str();
}

std::string golden(const char* name) {
    std::ifstream file(std::string(URNIC_GOLDEN_DIR "/trace/") + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TraceLines, AllEvents) { EXPECT_EQ(told<JsonLines>("urnic0", "host"), golden("events.ndjson")); }

TEST(TraceLines, AllEventsForPerfetto) {
    EXPECT_EQ(told<PerfettoJson>("urnic0"), golden("events.perfetto.json"));
}

TEST(TraceLines, NamesAreEscaped) {
    const std::string odd("a\"\\\n\t\x01/\xff\xc3\xa4\x7f", 11);
    EXPECT_EQ(told<JsonLines>(odd, "network"), golden("odd.ndjson"));
    EXPECT_EQ(told<PerfettoJson>(odd), golden("odd.perfetto.json"));
}

/// As nlohmann::json writes it.
template <class Value>
std::string dumped(const Value& value) {
    return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TEST(JsonText, TimesAreExact) {
    std::mt19937_64 random(1);
    const auto check = [](std::uint64_t ns) {
        JsonText text;
        text.milliseconds(ns, false);
        const std::string shown(text.view());
        const std::size_t point = shown.find('.');
        ASSERT_NE(point, std::string::npos) << ns;
        const std::string fraction = shown.substr(point + 1);
        ASSERT_TRUE(!fraction.empty() && fraction.size() <= 6 &&
                    (fraction.size() == 1 || fraction.back() != '0'))
            << shown;
        ASSERT_EQ(std::stoull(shown.substr(0, point)), ns / 1'000'000) << shown;
        ASSERT_EQ(std::stoull(fraction + std::string(6 - fraction.size(), '0')), ns % 1'000'000) << shown;
        ASSERT_TRUE(nlohmann::json::accept(shown)) << shown;
        text.clear();
        text.milliseconds(ns, true);
        ASSERT_EQ(text.view(), "-" + shown);
    };
    for (std::uint64_t ns = 0; ns < 20'000; ++ns) check(ns);
    for (std::uint64_t ns = 1; ns < std::uint64_t{1} << 62U; ns *= 2) check(ns * 1'000'000);
    for (std::uint64_t ns = 1; ns < std::numeric_limits<std::uint64_t>::max() / 10; ns *= 10) {
        check(ns - 1);
        check(ns);
    }
    for (unsigned bits = 14; bits <= 64; ++bits) {
        for (int i = 0; i < 5'000; ++i) check(random() >> (64 - bits));
    }
}

TEST(JsonText, TextsAreThoseOfTheLibrary) {
    std::mt19937_64 random(2);
    const std::string some = "abc/ 0x~\x20\x7f\\\"\n\x1f\x80\xc3\xa4\xe2\x82\xac\xff";
    for (int i = 0; i < 20'000; ++i) {
        // Mostly plain, of any length.
        const std::size_t kinds = i % 2 == 0 ? 10 : some.size();
        std::string text(random() % 40, ' ');
        for (char& letter : text) letter = some[random() % kinds];
        if (!text.empty() && i % 3 == 0) text[random() % text.size()] = some[random() % some.size()];
        JsonText made;
        made.text(text);
        ASSERT_EQ(made.view(), dumped(text));
    }
}

}  // namespace
}  // namespace urnic::trace
