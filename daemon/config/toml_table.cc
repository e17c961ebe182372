#include "daemon/config/toml_table.h"

namespace urnic::daemon {

std::string get_string(const toml::node& node, const std::string& key) {
    const auto* text = node.as_string();
    if (text == nullptr || text->get().empty()) {
        throw_at(node, fmt::format("'{}' must be a string that is not empty", key));
    }
    if (text->get().find('\0') != std::string::npos) {
        throw_at(node, fmt::format("'{}' must not contain a NUL character", key));
    }
    return text->get();
}

bool get_bool(const toml::node& node, const std::string& key) {
    const auto* flag = node.as_boolean();
    if (flag == nullptr) {
        throw_at(node, fmt::format("'{}' must be true or false", key));
    }
    return flag->get();
}

std::int64_t get_int(const toml::node& node, const std::string& key, std::int64_t least, std::int64_t most) {
    const auto* number = node.as_integer();
    if (number == nullptr || number->get() < least || number->get() > most) {
        throw_at(node, fmt::format("'{}' must be a whole number from {} to {}", key, least, most));
    }
    return number->get();
}

bool is_second_of(const toml::node& node, const std::string& key, std::string_view first,
                  std::string_view second) {
    const std::string text = get_string(node, key);
    if (text != first && text != second) {
        throw_at(node, fmt::format("'{}' must be \"{}\" or \"{}\"", key, first, second));
    }
    return text == second;
}

}  // namespace urnic::daemon
