// A device without type 2 memory windows: with RPCRDMA_CHECK_WITHOUT_WINDOWS in its environment the program
// tells the library that the device has none.
#pragma once

namespace urnic::e2e {

[[nodiscard]] bool has_windows();

}  // namespace urnic::e2e
