// The differences between our packets and a real peer's that are right, each with its reason. Whatever
// differs otherwise is an error.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace urnic::sim {

/// How often each row of a table was made use of, by its name.
using UsedDifferences = std::map<std::string, int>;

/// Compares two packets header by header and field by field; Ethernet to ICRC. Returns a line for each field
/// that differs and is not in the table of allowed differences; counts in `used` those that are.
[[nodiscard]] std::vector<std::string> field_differences(std::span<const std::byte> ours,
                                                         std::span<const std::byte> theirs,
                                                         UsedDifferences& used);
/// The names of the table's rows, as they appear in `used`.
[[nodiscard]] std::vector<std::string> allowed_field_differences();

/// Compares our answers with those of the peer, one after another. `bursts`: ours were made for several
/// requests at once.
[[nodiscard]] std::vector<std::string> answer_differences(const std::vector<std::vector<std::byte>>& ours,
                                                          const std::vector<std::vector<std::byte>>& theirs,
                                                          bool bursts, UsedDifferences& used);
[[nodiscard]] std::vector<std::string> allowed_answer_differences();

}  // namespace urnic::sim
