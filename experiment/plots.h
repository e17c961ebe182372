// Pictures of results, drawn by draw.py with matplotlib.
#pragma once

#include <filesystem>

namespace urnic::experiment {

/// Draws what `results` (JSON) holds into `out`. Throws std::runtime_error with the reason and what mends it.
void draw(const std::filesystem::path& results, const std::filesystem::path& out);

}  // namespace urnic::experiment
