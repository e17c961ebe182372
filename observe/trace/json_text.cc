#include "observe/trace/json_text.h"

#include <nlohmann/json.hpp>
#include <string>

namespace urnic::trace {

namespace {

constexpr std::uint64_t kEach = 0x0101'0101'0101'0101;
constexpr std::uint64_t kTops = kEach * 0x80;

/// The top bit of a byte of `word` is set, and perhaps of one above it, if the byte is zero.
constexpr std::uint64_t zeros_in(std::uint64_t word) { return (word - kEach) & ~word & kTops; }

/// Not 0: one of the eight bytes is a control character, a quotation mark, a backslash or no ASCII.
constexpr std::uint64_t odd_in(std::uint64_t word) {
    return (word & kTops) | ((word - kEach * 0x20) & ~word & kTops) | zeros_in(word ^ kEach * '"') |
           zeros_in(word ^ kEach * '\\');
}

std::uint64_t word_at(const char* from, std::size_t bytes) {
    std::uint64_t word = kEach * ' ';
    std::memcpy(&word, from, bytes);
    return word;
}

}  // namespace

bool JsonText::is_plain(std::string_view text) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    const char* const from = text.data();
    const std::size_t size = text.size();
    if (size < kWord) return odd_in(word_at(from, size)) == 0;
    std::uint64_t odd = odd_in(word_at(from + size - kWord, kWord));
    for (std::size_t i = 0; i + kWord < size; i += kWord) odd |= odd_in(word_at(from + i, kWord));
    return odd == 0;
}

void JsonText::escaped(std::string_view text) {
    raw(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void JsonText::real(double value) { raw(nlohmann::json(value).dump()); }

void JsonText::milliseconds(std::uint64_t ns, bool is_negative) {
    constexpr std::uint64_t kNsPerMilli = 1'000'000;
    constexpr std::size_t kMostFraction = 6;
    if (is_negative) raw("-");
    number(ns / kNsPerMilli);
    raw(".");
    std::uint64_t fraction = ns % kNsPerMilli;
    std::size_t digits = kMostFraction;
    for (; digits > 1 && fraction % 10 == 0; --digits) fraction /= 10;
    char* const to = room(digits);
    for (std::size_t i = digits; i > 0; --i) {
        to[i - 1] = static_cast<char>('0' + fraction % 10);
        fraction /= 10;
    }
    size_ += digits;
}

void JsonText::texts(const std::vector<std::string>& list) {
    std::string_view before = "[";
    for (const std::string& one : list) {
        raw(before);
        text(one);
        before = ",";
    }
    raw(list.empty() ? "[]" : "]");
}

void JsonText::value(const EventData::Value& value) {
    switch (value.kind) {
        case EventData::Kind::kBoolean:
            raw(value.boolean ? "true" : "false");
            break;
        case EventData::Kind::kSigned:
            number(value.number);
            break;
        case EventData::Kind::kUnsigned:
            number(value.unsigned_number);
            break;
        case EventData::Kind::kReal:
            real(value.real);
            break;
        case EventData::Kind::kMilliseconds:
            milliseconds(value.unsigned_number, false);
            break;
        case EventData::Kind::kHexText:
            raw("\"0x");
            number(value.unsigned_number, 16);
            raw("\"");
            break;
        case EventData::Kind::kText:
            text(value.text());
            break;
        case EventData::Kind::kTexts:
            texts(*value.texts);
            break;
    }
}

}  // namespace urnic::trace
