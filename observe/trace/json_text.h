// JSON as text into one buffer that is kept: for events, which come by the million. Strings and real numbers
// are those of nlohmann::json::dump().
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "observe/trace/event_data.h"

namespace urnic::trace {

class JsonText {
  public:
    void clear() { size_ = 0; }
    [[nodiscard]] std::string_view view() const { return {buffer_.data(), size_}; }

    /// `json` is JSON already.
    [[gnu::always_inline]] void raw(std::string_view json) {
        std::memcpy(room(json.size()), json.data(), json.size());
        size_ += json.size();
    }
    /// A string, with escapes; what is no UTF-8 becomes U+FFFD.
    void text(std::string_view text) {
        if (!is_plain(text)) {
            escaped(text);
            return;
        }
        char* const to = room(text.size() + 2);
        to[0] = '"';
        std::memcpy(to + 1, text.data(), text.size());
        to[text.size() + 1] = '"';
        size_ += text.size() + 2;
    }
    template <std::integral Number>
    void number(Number value, int base = 10) {
        char* const to = room(kMostDigits);
        size_ =
            static_cast<std::size_t>(std::to_chars(to, to + kMostDigits, value, base).ptr - buffer_.data());
    }
    void real(double value);
    /// That time in milliseconds, to the nanosecond: "0.0", "12.5", "0.000002".
    void milliseconds(std::uint64_t ns, bool is_negative);
    /// An array of strings.
    void texts(const std::vector<std::string>& list);
    void value(const EventData::Value& value);
    /// Members without braces.
    void members(const EventData& data) {
        std::string_view between = "\"";
        for (const EventData::Member& member : data) {
            raw(between);
            raw(member.name());
            raw("\":");
            value(member.value);
            between = ",\"";
        }
    }

  private:
    static constexpr std::size_t kMostDigits = 24;

    [[nodiscard]] char* room(std::size_t bytes) {
        if (buffer_.size() - size_ < bytes) buffer_.resize((size_ + bytes) * 2);
        return buffer_.data() + size_;
    }
    /// Returns whether it is printable ASCII without what is escaped.
    [[nodiscard]] static bool is_plain(std::string_view text);
    void escaped(std::string_view text);

    std::vector<char> buffer_ = std::vector<char>(1024);
    std::size_t size_ = 0;
};

}  // namespace urnic::trace
