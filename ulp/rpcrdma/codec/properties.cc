#include "ulp/rpcrdma/codec/properties.h"

#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma {
namespace {

/// A value may have no octets: it stands for the default (draft, section 6.1.1).
bool is_valid_value(const PropertyValue& value) {
    if (value.data.empty()) {
        return true;
    }
    XdrReader in(value.data);
    switch (static_cast<PropertyId>(value.id)) {
        case PropertyId::kReceiveBufferSize:
            (void)in.u32();
            return !in.failed();
        case PropertyId::kBackwardRequestSupport:
            return in.u32() <= static_cast<std::uint32_t>(BackwardSupport::kGeneral) && !in.failed();
    }
    return true;
}

void read_set(XdrReader& in, PropertySet& set) {
    const std::uint32_t count = in.u32();
    if (count > kMaxProperties) {
        in.fail();
        return;
    }
    for (std::uint32_t i = 0; i < count && !in.failed(); ++i) {
        PropertyValue value;
        value.id = in.u32();
        value.data = in.opaque(in.remaining());
        if (!is_valid_value(value)) {
            in.fail();
        }
        set.values[set.count++] = value;
    }
}

void read_subset(XdrReader& in, PropertySubset& subset) {
    const std::size_t words = in.u32();
    if (words > in.remaining() / 4) {
        in.fail();
        return;
    }
    for (std::size_t i = 0; i < words; ++i) {
        const std::uint32_t bits = in.u32();
        if (i == 0) {
            subset.bits = bits;
        }
    }
}

void write_set(XdrWriter& out, const PropertySet& set) {
    out.u32(static_cast<std::uint32_t>(set.count));
    for (const PropertyValue& value : set.all()) {
        out.u32(value.id);
        out.opaque(value.data);
    }
}

/// Missing words are 0.
void write_subset(XdrWriter& out, const PropertySubset& subset) {
    out.u32(subset.bits != 0 ? 1 : 0);
    if (subset.bits != 0) {
        out.u32(subset.bits);
    }
}

}  // namespace

std::optional<std::size_t> PropertySet::find(std::uint32_t id) const {
    for (std::size_t index = count; index-- != 0;) {
        if (values[index].id == id) {
            return index;
        }
    }
    return std::nullopt;
}

bool decode_properties(Proc proc, std::span<const std::byte> message, PropertyBody& out,
                       std::size_t& octets) {
    out.values.count = 0;
    out.first = {};
    out.second = {};
    XdrReader in(message);
    switch (proc) {
        case Proc::kConnprop:
            read_set(in, out.values);
            read_subset(in, out.first);
            break;
        case Proc::kReqprop:
        case Proc::kUpdprop:
            read_set(in, out.values);
            break;
        case Proc::kResprop:
            read_subset(in, out.first);
            read_subset(in, out.second);
            read_set(in, out.values);
            break;
        default:
            in.fail();
    }
    octets = in.position();
    return !in.failed();
}

bool decode_properties(Proc proc, std::span<const std::byte> body, PropertyBody& out) {
    std::size_t octets = 0;
    return decode_properties(proc, body, out, octets);
}

std::size_t encode_properties(Proc proc, const PropertyBody& body, std::span<std::byte> room) {
    XdrWriter out(room);
    switch (proc) {
        case Proc::kConnprop:
            write_set(out, body.values);
            write_subset(out, body.first);
            break;
        case Proc::kReqprop:
        case Proc::kUpdprop:
            write_set(out, body.values);
            break;
        case Proc::kResprop:
            write_subset(out, body.first);
            write_subset(out, body.second);
            write_set(out, body.values);
            break;
        default:
            return 0;
    }
    return out.failed() ? 0 : out.size();
}

std::uint32_t property_word(const PropertyValue& value) {
    if (!value.data.empty()) {
        return XdrReader(value.data).u32();
    }
    switch (static_cast<PropertyId>(value.id)) {
        case PropertyId::kReceiveBufferSize:
            return kInlineThreshold2;
        case PropertyId::kBackwardRequestSupport:
            return static_cast<std::uint32_t>(BackwardSupport::kInline);
    }
    return 0;
}

}  // namespace urnic::rpcrdma
