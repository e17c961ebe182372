#include <cstdlib>
#include <cstring>

#include "tests/support/file_service/service.h"

namespace urnic::file_service {

namespace {

// What xdr_free() frees.
template <class T>
T* allocate(std::size_t count) {
    return static_cast<T*>(std::calloc(count == 0 ? 1 : count, sizeof(T)));
}

payload make_payload(std::uint64_t seed, std::uint32_t octets) {
    payload made{.payload_len = octets, .payload_val = octets == 0 ? nullptr : allocate<char>(octets)};
    fill_pattern(seed, 0, made.payload_val, octets);
    return made;
}

bool are_equal_payloads(const payload& left, const payload& right) {
    return left.payload_len == right.payload_len &&
           (left.payload_len == 0 || std::memcmp(left.payload_val, right.payload_val, left.payload_len) == 0);
}

bool are_equal_shapes(const shape& left, const shape& right) {
    if (left.kind != right.kind) {
        return false;
    }
    if (left.kind == SHAPE_NUMBER) {
        return left.shape_u.number == right.shape_u.number;
    }
    if (left.kind != SHAPE_WORDS) {
        return true;
    }
    const auto& words = left.shape_u.words;
    const auto& others = right.shape_u.words;
    bool is_equal = words.words_len == others.words_len;
    for (u_int i = 0; is_equal && i < words.words_len; ++i) {
        is_equal = std::strcmp(words.words_val[i], others.words_val[i]) == 0;
    }
    return is_equal;
}

}  // namespace

sample make_sample(std::uint64_t seed, std::uint32_t data_octets) {
    sample made{};
    made.a = -static_cast<int>(seed);
    made.b = static_cast<u_int>(seed * 3);
    made.c = -static_cast<quad_t>(seed << 33U);
    made.d = seed * 0x123456789ULL;
    made.e = static_cast<float>(seed) / 4;
    made.f = seed % 2 == 0 ? TRUE : FALSE;
    fill_pattern(seed, 77, made.fixed, sizeof made.fixed);
    made.before = make_payload(seed + 1, static_cast<std::uint32_t>(seed % 6));
    for (int& number : made.numbers) {
        number = static_cast<int>(seed++);
    }
    made.more.more_len = static_cast<u_int>(seed % 9);
    made.more.more_val = allocate<int>(made.more.more_len);
    for (u_int i = 0; i < made.more.more_len; ++i) {
        made.more.more_val[i] = static_cast<int>(i * seed);
    }
    made.shapes.shapes_len = 3;
    made.shapes.shapes_val = allocate<shape>(3);
    made.shapes.shapes_val[0].kind = SHAPE_NUMBER;
    made.shapes.shapes_val[0].shape_u.number = static_cast<double>(seed) / 8;
    made.shapes.shapes_val[1].kind = SHAPE_WORDS;
    auto& words = made.shapes.shapes_val[1].shape_u.words;
    words.words_len = 3;
    words.words_val = allocate<file_name>(3);
    words.words_val[0] = strdup("");
    words.words_val[1] = strdup("word");
    words.words_val[2] = strdup("longer");
    made.data = make_payload(seed + 2, data_octets);
    made.behind = make_payload(seed + 3, static_cast<std::uint32_t>(seed % 7));
    return made;
}

bool are_equal(const sample& left, const sample& right) {
    bool is_equal = left.a == right.a && left.b == right.b && left.c == right.c && left.d == right.d &&
                    left.e == right.e && left.f == right.f &&
                    std::memcmp(left.fixed, right.fixed, sizeof left.fixed) == 0 &&
                    std::memcmp(left.numbers, right.numbers, sizeof left.numbers) == 0 &&
                    left.more.more_len == right.more.more_len &&
                    left.shapes.shapes_len == right.shapes.shapes_len;
    for (u_int i = 0; is_equal && i < left.more.more_len; ++i) {
        is_equal = left.more.more_val[i] == right.more.more_val[i];
    }
    for (u_int i = 0; is_equal && i < left.shapes.shapes_len; ++i) {
        is_equal = are_equal_shapes(left.shapes.shapes_val[i], right.shapes.shapes_val[i]);
    }
    return is_equal && are_equal_payloads(left.before, right.before) &&
           are_equal_payloads(left.data, right.data) && are_equal_payloads(left.behind, right.behind);
}

}  // namespace urnic::file_service
