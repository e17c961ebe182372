// Configuration texts that are right.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "daemon/config/config.h"

namespace urnic::daemon {

inline const char* const kRnic = "[[rnic]]\nname = \"urnic0\"\nport = \"fabric\"\nfabric = \"lab\"\n";

inline Config good(const std::string& text) {
    auto result = parse_config(text, "test.toml");
    if (const auto* error = std::get_if<ConfigError>(&result)) {
        ADD_FAILURE() << error->message;
        return {};
    }
    return std::get<Config>(result);
}

}  // namespace urnic::daemon
