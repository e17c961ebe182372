// One file, several runs: changes that --set, [sweep] and [[variant]] make to an experiment.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <toml++/toml.h>

namespace urnic::experiment {

/// Sets a key of the file: "switch.kmin_kb", or of one of several tables, by its name, "flow.victim.sl".
/// Throws TomlError.
void change(toml::table& root, const std::string& key, const toml::node& value);

/// What one run changes; the values lie in the file.
struct Variation {
    std::string label;
    bool is_variant = false;
    std::vector<std::pair<std::string, const toml::node*>> changes;
};
/// By [sweep] or by [[variant]]s; one that changes nothing where the file has neither. Throws TomlError.
[[nodiscard]] std::vector<Variation> variations_of(const toml::table& root);

}  // namespace urnic::experiment
