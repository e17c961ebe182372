/// The text of the last error of a thread.
#pragma once

namespace urnic::rpcrdma {

/// Keeps a text for last_error(), and returns `error`.
[[gnu::format(printf, 2, 3)]] int fail(int error, const char* format, ...);
[[nodiscard]] const char* last_error();

}  // namespace urnic::rpcrdma
