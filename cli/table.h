// Text in columns.
#pragma once

#include <string>
#include <vector>

namespace urnic::cli {

using TableRow = std::vector<std::string>;

/// One line for each row, its cells under one another; a row of one cell among longer ones is a remark.
[[nodiscard]] std::string align_table(const std::vector<TableRow>& rows);

}  // namespace urnic::cli
