// What an event says beside its name: members of a JSON object, in order, and nothing on the heap.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace urnic::trace {

/// A time that is shown in milliseconds.
struct Milliseconds {
    std::uint64_t ns;
};
/// A number that is shown as text, "0x1f": a number of JSON has 53 bits everywhere.
struct HexText {
    std::uint64_t number;
};

/// Texts are the caller's until the event was written.
class EventData {
  public:
    enum class Kind : std::uint8_t {
        kBoolean,
        kSigned,
        kUnsigned,
        kReal,
        kMilliseconds,
        kHexText,
        kText,
        kTexts
    };
    /// Of any kind, as it is given.
    struct Value {
        Value() = default;
        Value(bool truth) : kind(Kind::kBoolean), boolean(truth) {}
        template <std::signed_integral Number>
        Value(Number value) : kind(Kind::kSigned), number(value) {}
        template <std::unsigned_integral Number>
        Value(Number value) : kind(Kind::kUnsigned), unsigned_number(value) {}
        Value(double value) : kind(Kind::kReal), real(value) {}
        Value(Milliseconds time) : kind(Kind::kMilliseconds), unsigned_number(time.ns) {}
        Value(HexText hex) : kind(Kind::kHexText), unsigned_number(hex.number) {}
        Value(std::string_view value) : kind(Kind::kText), characters(value.data()), length(value.size()) {}
        Value(const char* value) : Value(std::string_view(value)) {}
        Value(const std::string& value) : Value(std::string_view(value)) {}
        // They would be gone before the event is written.
        Value(std::string&&) = delete;
        Value(std::vector<std::string>&&) = delete;
        Value(const std::vector<std::string>& list) : kind(Kind::kTexts), texts(&list) {}
        [[nodiscard]] std::string_view text() const { return {characters, length}; }

        Kind kind;
        union {
            bool boolean;
            std::int64_t number;
            std::uint64_t unsigned_number;
            double real;
            const char* characters;
            const std::vector<std::string>* texts;
        };
        std::size_t length;  // of characters
    };
    /// `name` needs no escapes.
    struct Member {
        Member() = default;
        Member(std::string_view member, Value given)
            : name_characters(member.data()), name_length(member.size()), value(given) {}
        [[nodiscard]] std::string_view name() const { return {name_characters, name_length}; }

        const char* name_characters;
        std::size_t name_length;
        Value value;
    };

    EventData() = default;
    EventData(std::initializer_list<Member> members) {
        URNIC_CHECK(members.size() <= kMostMembers);
        for (const Member& member : members) members_[count_++] = member;
    }
    /// The value of a new member at the end; there is none of that name.
    [[nodiscard]] Value& operator[](std::string_view name) {
        URNIC_CHECK(count_ < kMostMembers);
        members_[count_] = {name, Value(false)};
        return members_[count_++].value;
    }
    [[nodiscard]] const Member* begin() const { return members_.data(); }
    [[nodiscard]] const Member* end() const { return members_.data() + count_; }

  private:
    static constexpr std::size_t kMostMembers = 12;

    std::array<Member, kMostMembers> members_;  // those up to count_ are set
    std::size_t count_ = 0;
};

}  // namespace urnic::trace
