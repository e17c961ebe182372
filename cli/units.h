// Numbers as people read them: three digits and a unit.
#pragma once

#include <cstdint>
#include <string>

namespace urnic::cli {

/// "1.25 GB/s": at most nine characters up to 999 TB/s.
[[nodiscard]] std::string rate_text(double bytes_per_s);
/// "4.00 KiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "12.5 k": at most six characters up to 999 T.
[[nodiscard]] std::string count_text(double count);
/// "3 h 7 min".
[[nodiscard]] std::string duration_text(std::uint64_t seconds);
/// "1 worker", "2 workers".
[[nodiscard]] std::string plural(std::size_t count, const char* one, const char* many);

}  // namespace urnic::cli
