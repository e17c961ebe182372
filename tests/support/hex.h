// Bytes written down as hexadecimal digits.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace urnic::test {

/// Two digits a byte; spaces between bytes count for nothing.
inline std::vector<std::byte> from_hex(const std::string& text) {
    std::vector<std::byte> bytes;
    for (std::size_t at = 0; at + 2 <= text.size();) {
        if (text[at] == ' ') {
            ++at;
            continue;
        }
        bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(at, 2), nullptr, 16)));
        at += 2;
    }
    return bytes;
}

/// The digits `count` times.
inline std::string repeated(const std::string& digits, std::size_t count) {
    std::string text;
    for (; count != 0; --count) {
        text += digits;
    }
    return text;
}

}  // namespace urnic::test
