#include "tests/mutants/mutants.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace urnic::mutants {

namespace {

const volatile std::uint32_t kNone = 0;

// Before main(), where nothing restricts the daemon yet.
[[maybe_unused]] const bool is_mapped = [] {
    const char* path = std::getenv("URNIC_MUTANT");
    const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
    void* memory = fd < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(std::uint32_t), PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        std::fprintf(stderr, "urnicd with defects: URNIC_MUTANT has to name a file of four bytes\n");
        std::exit(2);
    }
    ::close(fd);
    current = static_cast<const volatile std::uint32_t*>(memory);
    return true;
}();

}  // namespace

const volatile std::uint32_t* current = &kNone;

}  // namespace urnic::mutants
