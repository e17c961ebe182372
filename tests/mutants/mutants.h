// Which deliberate defect of the daemon under test is on (tests/mutants/mutants.py).
#pragma once

#include <cstdint>

namespace urnic::mutants {

/// Its number, 0: none. It lies in the file that URNIC_MUTANT names, so that a test changes it at any time.
extern const volatile std::uint32_t* current;

inline bool is(std::uint32_t number) { return *current == number; }

}  // namespace urnic::mutants
