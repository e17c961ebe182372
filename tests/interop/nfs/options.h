// Options of the form `--name value`.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace urnic::nfs {

class Options {
  public:
    // Throws std::invalid_argument.
    Options(int argc, const char* const* argv) {
        for (int i = 1; i < argc; i += 2) {
            const std::string_view name = argv[i];
            if (!name.starts_with("--") || i + 1 == argc) {
                throw std::invalid_argument("not --name value: " + std::string(name));
            }
            values_[std::string(name.substr(2))] = argv[i + 1];
        }
    }
    [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const {
        const auto found = values_.find(name);
        return found == values_.end() ? otherwise : found->second;
    }
    [[nodiscard]] unsigned long number(const std::string& name, unsigned long otherwise) const {
        const auto found = values_.find(name);
        return found == values_.end() ? otherwise : std::stoul(found->second);
    }
    [[nodiscard]] std::uint16_t port(const std::string& name, std::uint16_t otherwise) const {
        return static_cast<std::uint16_t>(number(name, otherwise));
    }

  private:
    std::map<std::string, std::string> values_;
};

}  // namespace urnic::nfs
