#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace urnic::cli {

std::string align_table(const std::vector<TableRow>& rows) {
    std::vector<std::size_t> widths;
    for (const TableRow& row : rows) {
        if (row.size() == 1 && rows.size() > 1) continue;  // a remark
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const TableRow& row : rows) {
        std::string line = " ";
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += fmt::format(" {:<{}}", row[i], i < widths.size() ? widths[i] + 1 : 1);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

}  // namespace urnic::cli
