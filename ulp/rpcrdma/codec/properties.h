/// Transport properties of version 2 (draft, section 6): what each side tells of its receives and of backward
/// requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ulp/rpcrdma/codec/header.h"

namespace urnic::rpcrdma {

/// rpcrdma2_propid.
enum class PropertyId : std::uint32_t { kReceiveBufferSize = 1, kBackwardRequestSupport = 2 };
/// rpcrdma2_bkreqsup.
enum class BackwardSupport : std::uint32_t { kNone = 0, kInline = 1, kGeneral = 2 };

inline constexpr std::uint32_t kFirstExperimentalProperty = 0xFFFFFF00U;
/// Most properties of a set that are kept; a set with more is an error in its XDR to this implementation.
inline constexpr std::size_t kMaxProperties = 32;
/// Most words of a propsubset: one bit for each property.
inline constexpr std::size_t kMaxSubsetWords = (kMaxProperties + 31) / 32;

/// rpcrdma2_propval with its value undecoded; an empty value stands for the default.
struct PropertyValue {
    std::uint32_t id = 0;
    std::span<const std::byte> data;
};

/// rpcrdma2_propset, in the order of the message.
struct PropertySet {
    std::array<PropertyValue, kMaxProperties> values;
    std::size_t count = 0;
    [[nodiscard]] std::span<const PropertyValue> all() const { return std::span(values).first(count); }
    /// The index of the last value of that id, which counts; none: it is not in the set.
    [[nodiscard]] std::optional<std::size_t> find(std::uint32_t id) const;
};

/// rpcrdma2_propsubset: bit N stands for value N of the set that it is beside; words beyond the set are
/// ignored.
struct PropertySubset {
    std::uint32_t bits = 0;
    [[nodiscard]] bool has(std::size_t index) const { return index < 32 && (bits >> index & 1U) != 0; }
    void add(std::size_t index) { bits |= index < 32 ? 1U << index : 0; }
};

/// The arms of CONNPROP (values, nochg in `first`), REQPROP (values), RESPROP (done in `first`, rejected in
/// `second`, other in values), UPDPROP (values).
struct PropertyBody {
    PropertySet values;
    PropertySubset first;
    PropertySubset second;
};

/// Returns false for an error in the XDR: a length beyond the message, more than kMaxProperties, a known
/// property whose value is no valid XDR of its type or too short for it (draft, 6.1.1); unknown properties
/// are no error, nor are octets behind a value or behind the body. `out` has views of `body`.
[[nodiscard]] bool decode_properties(Proc proc, std::span<const std::byte> body, PropertyBody& out);
/// As decode_properties(); `octets`: of the arm, which begins `message`.
[[nodiscard]] bool decode_properties(Proc proc, std::span<const std::byte> message, PropertyBody& out,
                                     std::size_t& octets);
/// The octets written; 0: the room is too small, or `proc` has no properties.
[[nodiscard]] std::size_t encode_properties(Proc proc, const PropertyBody& body, std::span<std::byte> room);

/// The value of a word property: its default where the data is empty (4096, kInline), 0 for properties that
/// have none. Only for checked values.
[[nodiscard]] std::uint32_t property_word(const PropertyValue& value);

}  // namespace urnic::rpcrdma
