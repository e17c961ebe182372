#include "tests/unit/rnic/neighbour/neighbour_script.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>
#include <vector>

namespace urnic::net::test {

namespace {

using Words = std::vector<std::string>;

Hop hop_of(const std::string& text) {
    const auto at = text.find('@');
    Hop hop{address_of(text.substr(0, at)), 0};
    if (at != std::string::npos) {
        hop.vlan = static_cast<std::uint16_t>(std::stoul(text.substr(at + 1)));
    }
    return hop;
}

std::string text_of(const wire::Gid& gid, std::uint16_t vlan) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (wire::is_ipv4_mapped(gid)) {
        inet_ntop(AF_INET, &gid[12], text.data(), text.size());
    } else {
        inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
    }
    std::string result = text.data();
    if (vlan != 0) {
        result += '@';
        result += std::to_string(vlan);
    }
    return result;
}

std::string text_of(const wire::Mac& mac) {
    return (mac[0] & 1U) != 0 ? "all" : std::string(1, static_cast<char>(mac[5]));
}

std::string state_name(std::optional<NeighbourState> state) {
    static const char* const kNames[] = {"incomplete", "reachable", "stale", "probe", "failed"};
    return state ? kNames[static_cast<int>(*state)] : "none";
}

NeighbourMessage message_of(const Words& words) {
    NeighbourMessage message;
    const bool is_ask = words[2] == "ask";
    const Hop first = hop_of(words[3]);
    message.vlan = first.vlan;
    message.op = is_ask ? NeighbourOp::kAsk : NeighbourOp::kAnswer;
    message.sender_mac = mac_of(words[is_ask ? 6 : 4][0]);
    message.eth_src = message.sender_mac;
    if (is_ask) {
        message.target = first.address;
        message.sender = words[5] == "nobody" ? wire::Gid{} : hop_of(words[5]).address;
        message.eth_dst = kBroadcastMac;
        return message;
    }
    message.sender = first.address;
    message.is_solicited = words[6] == "us";
    message.eth_dst = message.is_solicited ? mac_of('A') : kBroadcastMac;
    message.may_override = words.size() < 8;
    return message;
}

}  // namespace

wire::Gid address_of(const std::string& text) {
    wire::Gid gid{};
    if (inet_pton(AF_INET, text.c_str(), &gid[12]) == 1) {
        gid[10] = gid[11] = 0xff;
    } else if (inet_pton(AF_INET6, text.c_str(), gid.data()) != 1) {
        ADD_FAILURE() << "no address: " << text;
    }
    return gid;
}

wire::Mac mac_of(char name) { return {2, 0, 0, 0, 0, static_cast<std::uint8_t>(name)}; }

void NeighbourScript::note(const std::string& what) {
    std::array<char, 32> time{};
    std::snprintf(time.data(), time.size(), "%.3f ", static_cast<double>(now_) / 1e9);
    done_.push_back(time.data() + what);
}

void NeighbourScript::send(const NeighbourMessage& message) {
    EXPECT_EQ(message.eth_src, message.sender_mac);
    const bool is_ask = message.op == NeighbourOp::kAsk;
    const wire::Gid& about = is_ask ? message.target : message.sender;
    note(std::string(is_ask ? "> ask " : "> answer ") + text_of(about, message.vlan) + " to " +
         text_of(message.eth_dst));
}

void NeighbourScript::changed(const Hop& hop, const std::optional<wire::Mac>& mac) {
    note("! " + text_of(hop.address, hop.vlan) + " " + (mac ? text_of(*mac) : "gone"));
    EXPECT_EQ(cache_.find(hop), mac);
}

void NeighbourScript::conflict(const Hop& own, const wire::Mac& other) {
    note("conflict " + text_of(own.address, own.vlan) + " " + text_of(other));
}

void NeighbourScript::advance_to(TimeNs at) {
    while (cache_.next_event() <= at) {
        now_ = std::max(now_, cache_.next_event());
        cache_.advance(now_, *this);
    }
    now_ = at;
}

void NeighbourScript::line(const std::string& text) {
    std::istringstream stream(text);
    const Words words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) {
        return;
    }
    SCOPED_TRACE("line: " + text);
    ASSERT_GE(words.size(), 2U);
    const auto at = static_cast<TimeNs>(std::stod(words[0]) * 1000 + 0.5) * 1'000'000;
    const std::string& verb = words[1];
    advance_to(at);
    if (verb == ">" || verb == "!" || verb == "conflict") {
        std::string expected = text.substr(text.find(words[0]) + words[0].size());
        expected.erase(0, expected.find_first_not_of(' '));
        ASSERT_FALSE(done_.empty()) << "nothing was done";
        std::array<char, 32> time{};
        std::snprintf(time.data(), time.size(), "%.3f ", static_cast<double>(at) / 1e9);
        EXPECT_EQ(done_.front(), time.data() + expected);
        done_.pop_front();
        return;
    }
    EXPECT_TRUE(done_.empty()) << "not expected: " << done_.front();
    done_.clear();
    if (verb == "own") {
        const bool other_mac = words.size() > 2 && words[2].size() == 1;
        std::vector<Hop> own;
        std::transform(words.begin() + (other_mac ? 3 : 2), words.end(), std::back_inserter(own), hop_of);
        cache_.set_own(mac_of(other_mac ? words[2][0] : 'A'), own, now_, *this);
    } else if (verb == "want") {
        EXPECT_TRUE(cache_.want(hop_of(words[2]), {}, now_, *this));
    } else if (verb == "drop") {
        cache_.drop(hop_of(words[2]));
    } else if (verb == "<") {
        cache_.receive(message_of(words), now_, *this);
    } else if (verb == "check") {
        EXPECT_EQ(state_name(cache_.state(hop_of(words[2]))), words[3]);
    } else if (verb != "end") {
        ADD_FAILURE() << "no such verb";
    }
}

void NeighbourScript::run(const std::string& text) {
    std::istringstream lines(text);
    for (std::string one; std::getline(lines, one);) {
        line(one);
    }
    EXPECT_TRUE(done_.empty()) << "not expected: " << done_.front();
}

}  // namespace urnic::net::test
