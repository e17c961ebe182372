#include "ulp/rpcrdma/verbs/error.h"

#include <array>
#include <cstdarg>
#include <cstdio>

namespace urnic::rpcrdma {
namespace {

thread_local std::array<char, 512> t_last_error{};

}  // namespace

int fail(int error, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(t_last_error.data(), t_last_error.size(), format, arguments);
    va_end(arguments);
    return error;
}

const char* last_error() { return t_last_error.data(); }

}  // namespace urnic::rpcrdma
