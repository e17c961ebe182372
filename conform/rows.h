// Several runs side by side: a row for each case, a cell for each run.
#pragma once

#include <vector>

#include "conform/record.h"

namespace urnic::conform {

struct MatrixRow {
    std::vector<const CaseRecord*> cells;  // null: that run has not this case
    /// What the cells have in common: name, clause, requirement.
    [[nodiscard]] const CaseRecord& any() const {
        for (const CaseRecord* cell : cells) {
            if (cell != nullptr) {
                return *cell;
            }
        }
        return *cells.front();  // a row has a cell
    }
};

/// In the order of the first run; what only later runs have comes behind. Refers into `runs`.
[[nodiscard]] std::vector<MatrixRow> matrix_rows(const std::vector<RunRecord>& runs);

}  // namespace urnic::conform
