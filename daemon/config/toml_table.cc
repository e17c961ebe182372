#include "daemon/config/toml_table.h"

namespace urnic::dataplane {

std::string text_of(const toml::node& node, const std::string& key) {
    const auto* text = node.as_string();
    if (text == nullptr || text->get().empty()) {
        fail(node, fmt::format("'{}' must be a string that is not empty", key));
    }
    if (text->get().find('\0') != std::string::npos) {
        fail(node, fmt::format("'{}' must not contain a NUL character", key));
    }
    return text->get();
}

bool flag_of(const toml::node& node, const std::string& key) {
    const auto* flag = node.as_boolean();
    if (flag == nullptr) {
        fail(node, fmt::format("'{}' must be true or false", key));
    }
    return flag->get();
}

std::int64_t number_of(const toml::node& node, const std::string& key, std::int64_t least,
                       std::int64_t most) {
    const auto* number = node.as_integer();
    if (number == nullptr || number->get() < least || number->get() > most) {
        fail(node, fmt::format("'{}' must be a whole number from {} to {}", key, least, most));
    }
    return number->get();
}

}  // namespace urnic::dataplane
