#include "os/secure_random.h"

#include <sys/random.h>

#include "base/check.h"

namespace urnic {

std::uint32_t secure_random() {
    std::uint32_t number = 0;
    URNIC_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
    return number;
}

}  // namespace urnic
