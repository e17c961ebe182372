#include "observe/trace/json_text.h"

#include <algorithm>
#include <bit>
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

constexpr std::uint64_t kNsPerMilli = 1'000'000;
constexpr int kFractionDigits = 6;

/// Returns whether the double has so few digits that nlohmann's Grisu2 finds all of them. A decimal number of
/// up to 15 digits is the shortest that reads as its double; Grisu2 takes a longer one where it lies at the
/// very edge of the numbers that do, about once in a thousand.
bool has_shortest_digits(std::uint64_t ns, double ms) {
    constexpr std::uint64_t kMost = 999'999'999'999'999;
    constexpr unsigned kMantissaBits = 52;
    constexpr unsigned kExponentBias = 1023 + kMantissaBits;
    constexpr std::int64_t kHalf = kNsPerMilli / 2;  // of what lies between two doubles, in the unit of `off`
    constexpr std::int64_t kEdge = kHalf / 128;
    if (ns == 0 || ns > kMost) return false;
    const auto bits = std::bit_cast<std::uint64_t>(ms);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << kMantissaBits) - 1);
    const auto shift = kExponentBias - static_cast<unsigned>(bits >> kMantissaBits);
    if (fraction == 0) return false;  // the double below is nearer
    const std::uint64_t mantissa = fraction | std::uint64_t{1} << kMantissaBits;
    // How far the double is from the time: small, so that what leaves 64 bits does not count.
    const auto off = static_cast<std::int64_t>(mantissa * kNsPerMilli - (shift < 64 ? ns << shift : 0));
    return off < kHalf - kEdge && off > kEdge - kHalf;
}

/// As nlohmann::json has it: "0.0", "1.5", "2e-06".
char* put_decimal(std::uint64_t ns, char* to, char* end) {
    constexpr std::uint64_t kLeastWithPoint = 100;
    if (ns < kLeastWithPoint) {
        const bool has_two = ns >= 10;
        *to++ = static_cast<char>('0' + (has_two ? ns / 10 : ns));
        if (has_two && ns % 10 != 0) {
            *to++ = '.';
            *to++ = static_cast<char>('0' + ns % 10);
        }
        return std::copy_n(has_two ? "e-05" : "e-06", 4, to);
    }
    to = std::to_chars(to, end, ns / kNsPerMilli).ptr;
    auto fraction = static_cast<std::uint32_t>(ns % kNsPerMilli);
    *to++ = '.';
    int digits = kFractionDigits;
    for (; digits > 1 && fraction % 10 == 0; --digits) fraction /= 10;
    for (int i = digits - 1; i >= 0; --i) {
        to[i] = static_cast<char>('0' + fraction % 10);
        fraction /= 10;
    }
    return to + digits;
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
    const double ms = static_cast<double>(ns) / static_cast<double>(kNsPerMilli);
    if (!has_shortest_digits(ns, ms)) {
        real(is_negative ? -ms : ms);
        return;
    }
    char* to = room(2 * kMostDigits);
    if (is_negative) *to++ = '-';
    size_ = static_cast<std::size_t>(put_decimal(ns, to, to + kMostDigits) - buffer_.data());
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
