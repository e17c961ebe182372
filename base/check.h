// Always-on check for our own invariants. Never for anything a peer or an application controls: those are
// values (Result, errno, a counted drop).
#pragma once

#include <cstdio>
#include <cstdlib>

namespace urnic {

[[noreturn]] inline void check_failed(const char* expression, const char* file, int line) {
    std::fprintf(stderr, "urnic: internal error: %s is false at %s:%d; please report this\n", expression,
                 file, line);
    std::abort();
}

}  // namespace urnic

#define URNIC_CHECK(expression)                                     \
    do {                                                            \
        if (!(expression)) [[unlikely]] {                           \
            ::urnic::check_failed(#expression, __FILE__, __LINE__); \
        }                                                           \
    } while (false)
