// Part of reading the configuration file: where a mistake lies, and the [[fault]] tables.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <utility>

#include "dataplane/config.h"

namespace urnic::dataplane {

/// Thrown while the file is read, never out of parse_config(): the first mistake ends the parse.
struct Mistake {
    toml::source_position where;
    std::string text;
};

[[noreturn]] inline void fail(const toml::node& node, std::string text) {
    throw Mistake{node.source().begin, std::move(text)};
}

/// Reads the array of [[fault]] tables into config.faults; nullptr: there is none. config.rnics is complete.
void read_fault_tables(const toml::node* faults, Config& config);

}  // namespace urnic::dataplane
