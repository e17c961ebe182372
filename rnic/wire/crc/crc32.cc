// The variant in use: chosen when the program starts, by what the CPU has, and by measuring when asked to.
#include "rnic/wire/crc/crc32.h"

#include "rnic/wire/crc/copy_payload.h"
#include "rnic/wire/crc/crc32_variants.h"
#include "rnic/wire/crc/vcrc.h"

namespace urnic::wire {

namespace {

constexpr const Crc32Variant* kVariants[] = {&kCrc32Avx512, &kCrc32Avx2, &kCrc32Pclmul, &kCrc32Table};

const Crc32Variant* first_supported() {
    __builtin_cpu_init();
    for (const Crc32Variant* variant : kVariants) {
        if (variant->supported()) {
            return variant;
        }
    }
    return &kCrc32Table;
}

// Good from the first instruction on, so that other static initialisers may use it; better once this one ran.
constinit const Crc32Variant* active = &kCrc32Table;
[[maybe_unused]] const bool chosen = (active = first_supported(), true);

}  // namespace

std::span<const Crc32Variant* const> crc32_variants() { return kVariants; }

std::uint32_t crc32_update(std::uint32_t crc, const std::byte* data, std::size_t length_bytes) {
    return active->update(crc, data, length_bytes);
}

std::uint32_t crc32_copy(std::uint32_t crc, std::byte* to, const std::byte* from, std::size_t length_bytes) {
    return active->copy(crc, to, from, length_bytes);
}

std::uint32_t crc32_headed_update(const MaskedHead& head, const std::byte* data, std::size_t length_bytes) {
    return active->headed_update(head, data, length_bytes);
}

std::uint32_t crc32_headed_copy(const MaskedHead& head, std::byte* to, const std::byte* from,
                                std::size_t length_bytes) {
    return active->headed_copy(head, to, from, length_bytes);
}

void copy_payload(std::byte* to, const std::byte* from, std::size_t length_bytes) {
    active->copy_payload(to, from, length_bytes);
}

std::uint16_t variant_crc(std::span<const std::byte> covered) {
    return static_cast<std::uint16_t>(~active->vcrc(0xffff, covered));
}

const char* crc32_variant() { return active->name; }

void choose_crc32_variant(TimeNs (*now)()) { active = &fastest_variant(kVariants, now); }

}  // namespace urnic::wire
