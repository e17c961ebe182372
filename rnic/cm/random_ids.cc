#include "rnic/cm/random_ids.h"

#include <bit>

namespace urnic::cm {

namespace {

struct SipState {
    std::uint64_t v0;
    std::uint64_t v1;
    std::uint64_t v2;
    std::uint64_t v3;

    void rounds(int count) {
        for (int i = 0; i < count; ++i) {
            v0 += v1;
            v2 += v3;
            v1 = std::rotl(v1, 13) ^ v0;
            v3 = std::rotl(v3, 16) ^ v2;
            v0 = std::rotl(v0, 32);
            v2 += v1;
            v0 += v3;
            v1 = std::rotl(v1, 17) ^ v2;
            v3 = std::rotl(v3, 21) ^ v0;
            v2 = std::rotl(v2, 32);
        }
    }
    void word(std::uint64_t value) {
        v3 ^= value;
        rounds(2);
        v0 ^= value;
    }
};

}  // namespace

std::uint64_t RandomIds::next() {
    SipState state{key_[0] ^ 0x736f'6d65'7073'6575, key_[1] ^ 0x646f'7261'6e64'6f6d,
                   key_[0] ^ 0x6c79'6765'6e65'7261, key_[1] ^ 0x7465'6462'7974'6573};
    state.word(counter_++);
    state.word(std::uint64_t{8} << 56U);  // the length, as the hash has it at its end
    state.v2 ^= 0xff;
    state.rounds(4);
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace urnic::cm
