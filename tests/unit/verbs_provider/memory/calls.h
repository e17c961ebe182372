// What the tests of the program's own system calls share.
#pragma once

#include <algorithm>

#include "support.h"
#include "verbs_provider/memory/calls.h"

namespace urnic::memory {

inline int give_advice(const void* at, std::size_t bytes, int advice) {
    return advise(const_cast<void*>(at), bytes, advice, &::madvise);
}
inline void* plain_mremap(void* old_addr, std::size_t old_length, std::size_t new_length, int flags,
                          void* new_addr) {
    return ::mremap(old_addr, old_length, new_length, flags, new_addr);
}
inline char* move_memory(void* at, std::size_t old_bytes, std::size_t new_bytes, int flags,
                         void* to = nullptr) {
    return static_cast<char*>(remap(at, old_bytes, new_bytes, flags, to, &plain_mremap));
}

inline bool is_zero(const char* at, std::size_t bytes) {
    return std::all_of(at, at + bytes, [](char byte) { return byte == 0; });
}

class CallsTest : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override { apply_for_test({.text_maps_only = GetParam()}); }
    void TearDown() override {
        EXPECT_EQ(stretches_for_test(), 0U) << "the test left registrations behind";
        EXPECT_EQ(memory_file_bytes(), 0U) << "released pages still take memory";
        apply_for_test(RegistrySettings{});
    }
};
/// Registered as long as it lives.
class Registered {
  public:
    Registered(const void* at, std::size_t bytes) : registration_(convert(address_of(at), bytes, true)) {
        EXPECT_TRUE(registration_.converted);
    }
    ~Registered() { end(); }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
    void end() {
        release(registration_);
        registration_ = {};
    }

  private:
    Registration registration_;
};

/// Eight pages where a hole stays one.
struct LowArea : Area {
    explicit LowArea(std::uint64_t number)
        : Area(8 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
               reinterpret_cast<void*>((32ULL << 40U) + (number << 30U))) {
    }  // NOLINT(performance-no-int-to-ptr)
};

}  // namespace urnic::memory
