// Configuration files: each is a configuration or a message that names the file.
#include <string>
#include <variant>

#include "base/check.h"
#include "daemon/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace urnic;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto result = daemon::parse_config(text, "f.toml");
    if (const auto* error = std::get_if<daemon::ConfigError>(&result)) {
        URNIC_CHECK(error->message.starts_with("f.toml"));
    }
    return 0;
}
