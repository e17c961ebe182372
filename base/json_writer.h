// Writes JSON as text, for the control thread: nothing but a string grows, so that running out of memory is
// an exception like any other. (A tree of nlohmann::json allocates when it is destroyed, and then ends the
// process.)
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

namespace urnic {

class JsonWriter {
  public:
    /// `name` is left out in arrays and at the top.
    template <typename Function>
    void object(std::string_view name, Function&& members) {
        begin_object(name);
        members();
        end_object();
    }
    template <typename Function>
    void array(std::string_view name, Function&& elements) {
        begin_array(name);
        elements();
        end_array();
    }
    void begin_object(std::string_view name) { open(name, '{'); }
    void end_object() { close('}'); }
    void begin_array(std::string_view name) { open(name, '['); }
    void end_array() { close(']'); }
    void value(std::string_view name, std::string_view text) {
        begin(name);
        quote(text);
    }
    void value(std::string_view name, const char* text) { value(name, std::string_view(text)); }
    void value(std::string_view name, bool truth) {
        begin(name);
        text_ += truth ? "true" : "false";
    }
    template <std::integral Number>
    void value(std::string_view name, Number number) {
        begin(name);
        fmt::format_to(std::back_inserter(text_), "{}", number);
    }
    /// `text` is JSON already.
    void raw(std::string_view name, std::string_view text) {
        begin(name);
        text_ += text;
    }
    [[nodiscard]] std::string take() { return std::move(text_) + "\n"; }
    /// What was written since the last piece. The last one is taken by take().
    [[nodiscard]] std::string take_piece() { return std::exchange(text_, {}); }

  private:
    static constexpr std::size_t kIndent = 2;

    void begin(std::string_view name) {
        if (depth_ != 0) {
            text_ += first_ ? "\n" : ",\n";
            text_.append(depth_ * kIndent, ' ');
        }
        first_ = false;
        if (!name.empty()) {
            quote(name);
            text_ += ": ";
        }
    }
    void open(std::string_view name, char bracket) {
        begin(name);
        text_ += bracket;
        ++depth_;
        first_ = true;
    }
    void close(char bracket) {
        --depth_;
        if (!first_) {
            text_ += '\n';
            text_.append(depth_ * kIndent, ' ');
        }
        first_ = false;
        text_ += bracket;
    }
    /// RFC 8259 section 7.
    void quote(std::string_view text) {
        text_ += '"';
        for (const char c : text) {
            if (c == '"' || c == '\\') {
                text_ += '\\';
                text_ += c;
            } else if (static_cast<unsigned char>(c) < 0x20) {
                fmt::format_to(std::back_inserter(text_), "\\u{:04x}", static_cast<unsigned>(c));
            } else {
                text_ += c;
            }
        }
        text_ += '"';
    }

    std::string text_;
    std::size_t depth_ = 0;
    bool first_ = true;
};

}  // namespace urnic
