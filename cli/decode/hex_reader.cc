#include "cli/decode/hex_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <istream>
#include <sstream>

namespace urnic::decode {

namespace {

/// Longer than any frame: text without an empty line is no packet.
constexpr std::size_t kMostBytes = 1U << 18U;
constexpr std::size_t kLeastOffsetDigits = 4;

bool is_hex(const std::string& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(),
                                        [](unsigned char digit) { return std::isxdigit(digit) != 0; });
}

std::string without_prefix(const std::string& word) {
    return word.starts_with("0x") || word.starts_with("0X") ? word.substr(2) : word;
}

/// A line cut into an offset (empty: it has none) and words of digits.
struct Line {
    std::string offset;
    std::vector<std::string> words;
};

/// Characters behind the digits: hexdump puts them behind '|', xxd and tcpdump behind two spaces.
std::string digits_of(std::string text, bool has_colon) {
    text.resize(std::min(text.find('|'), text.size()));
    const std::size_t first = text.find_first_not_of(" \t");
    const std::size_t gap =
        has_colon && first != std::string::npos ? text.find("  ", first) : std::string::npos;
    text.resize(std::min(gap, text.size()));
    return text;
}

Line split(const std::string& text) {
    Line line;
    std::istringstream stream(text);
    std::string first;
    stream >> first;
    const bool has_colon = first.ends_with(':');
    const std::string number = without_prefix(has_colon ? first.substr(0, first.size() - 1) : first);
    std::string rest = text.substr(std::min(text.find(first) + first.size(), text.size()));
    std::istringstream words(digits_of(rest, has_colon));
    for (std::string word; words >> word;) {
        line.words.push_back(without_prefix(word));
    }
    // od and Wireshark: an offset of 4 digits or more in front of bytes of 2 digits.
    const bool has_bytes =
        !line.words.empty() && std::all_of(line.words.begin(), line.words.end(),
                                           [](const std::string& word) { return word.size() == 2; });
    if (has_colon || (number.size() >= kLeastOffsetDigits && has_bytes)) {
        line.offset = number;
    } else {
        line.words.insert(line.words.begin(), number);
    }
    return line;
}

class HexReader : public CaptureReader {
  public:
    HexReader(std::istream& stream, std::string name, wire::LinkLayer link)
        : stream_(stream), name_(std::move(name)), link_(link) {}

    std::optional<Record> next() override {
        Record record;
        record.link = link_;
        while (has_line_ || read_line()) {
            has_line_ = false;
            const bool is_empty =
                std::all_of(text_.begin(), text_.end(), [](unsigned char c) { return std::isspace(c) != 0; });
            if (is_empty && !record.bytes.empty()) {
                break;
            }
            if (is_empty || text_.starts_with('#')) {
                continue;
            }
            const Line line = split(text_);
            const bool begins =
                !line.offset.empty() && line.offset.find_first_not_of('0') == std::string::npos;
            if (begins && !record.bytes.empty()) {
                has_line_ = true;
                break;
            }
            append(line, record.bytes);
        }
        record.wire_bytes = record.bytes.size();
        return record.bytes.empty() ? std::nullopt : std::optional(std::move(record));
    }

  private:
    bool read_line() {
        ++number_;
        return static_cast<bool>(std::getline(stream_, text_));
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw CaptureError(
            fmt::format("{}:{}: {}; wanted are hexadecimal digits, with an empty line between packets", name_,
                        number_, what));
    }

    void append(const Line& line, std::vector<std::byte>& bytes) const {
        if (!line.offset.empty() && !is_hex(line.offset)) {
            fail(fmt::format("\"{}\" is no offset", line.offset));
        }
        for (const std::string& word : line.words) {
            if (!is_hex(word) || word.size() % 2 != 0) {
                fail(fmt::format("\"{}\" is no whole number of bytes", word));
            }
            for (std::size_t at = 0; at < word.size(); at += 2) {
                bytes.push_back(static_cast<std::byte>(std::stoul(word.substr(at, 2), nullptr, 16)));
            }
        }
        if (bytes.size() > kMostBytes) {
            fail(fmt::format("a packet of more than {} bytes", kMostBytes));
        }
    }

    std::istream& stream_;
    std::string name_;
    wire::LinkLayer link_;
    std::string text_;
    std::size_t number_ = 0;
    bool has_line_ = false;  // text_ begins the next packet
};

}  // namespace

std::unique_ptr<CaptureReader> read_hex(std::istream& stream, const std::string& name, wire::LinkLayer link) {
    return std::make_unique<HexReader>(stream, name, link);
}

}  // namespace urnic::decode
