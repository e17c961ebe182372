// Random input that prints its seed and replays from URNIC_TEST_SEED.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <random>
#include <vector>

namespace urnic::test {

class Random {
  public:
    Random() : seed_(pick_seed()), engine_(seed_) {}

    std::uint64_t next() { return engine_(); }
    /// 0 .. limit - 1.
    std::size_t below(std::size_t limit) { return static_cast<std::size_t>(engine_() % limit); }
    std::vector<std::byte> bytes(std::size_t count) {
        std::vector<std::byte> result(count);
        for (std::byte& byte : result) {
            byte = static_cast<std::byte>(engine_());
        }
        return result;
    }

    friend std::ostream& operator<<(std::ostream& out, const Random& random) {
        return out << "(replay with URNIC_TEST_SEED=" << random.seed_ << ')';
    }

  private:
    static std::uint64_t pick_seed() {
        const char* given = std::getenv("URNIC_TEST_SEED");
        return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    }

    std::uint64_t seed_;
    std::mt19937_64 engine_;
};

}  // namespace urnic::test
