#include "ulp/ipoib/codec/frame.h"

namespace urnic::ipoib {

std::optional<Gid> source_gid(ConstOctets grh, const Gid& own) {
    if (grh.size() < kGrhOctets) {
        return std::nullopt;
    }
    Gid source{};
    Gid destination{};
    std::copy_n(grh.begin() + 8, source.size(), source.begin());
    std::copy_n(grh.begin() + 24, destination.size(), destination.begin());
    if (u8_at(grh, 0) >> 4U == 6 && (destination == own || is_multicast(destination))) {
        return source;
    }
    const ConstOctets ipv4 = grh.subspan(20);
    if (u8_at(ipv4, 0) == 0x45 && fold(sum_words(ipv4.first(kIpv4HeaderOctets))) == 0xFFFF) {
        source.fill(std::byte{0});
        put_u16(source, 10, 0xFFFF);
        std::copy_n(ipv4.begin() + 12, 4, source.begin() + 12);
        return source;
    }
    return std::nullopt;
}

}  // namespace urnic::ipoib
