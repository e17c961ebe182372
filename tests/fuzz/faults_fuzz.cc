// Lists of faults as JSON: each is a list of rules or a message that names the text; what is listed of rules
// that were accepted is JSON again.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "base/check.h"
#include "daemon/control/fault_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace urnic;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto result = daemon::parse_faults(text, "f.json");
    if (const auto* error = std::get_if<daemon::FaultError>(&result)) {
        URNIC_CHECK(error->message.starts_with("f.json"));
        return 0;
    }
    std::vector<std::shared_ptr<fault::ActiveRule>> active;
    for (const fault::Rule& rule : std::get<std::vector<fault::Rule>>(result)) {
        const auto id = static_cast<std::uint32_t>(active.size() + 1);
        active.push_back(std::make_shared<fault::ActiveRule>(rule, id, 7));
    }
    URNIC_CHECK(nlohmann::json::accept(daemon::faults_json(active)));
    return 0;
}
