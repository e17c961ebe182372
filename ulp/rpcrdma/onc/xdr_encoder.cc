#include "ulp/rpcrdma/onc/xdr_encoder.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "ulp/rpcrdma/onc/ddp_table.h"
#include "ulp/rpcrdma/onc/libtirpc.h"

namespace urnic::rpcrdma::onc {

namespace {

/// Enough for a message that goes inline with the default receives.
constexpr std::size_t kFirstOctets = 4096;
constexpr std::size_t kWord = BYTES_PER_XDR_UNIT;
/// libtirpc counts positions in 32 bits.
constexpr std::size_t kMostOctets = std::numeric_limits<u_int>::max() - kWord;

}  // namespace

struct EncoderOps {
    static XdrEncoder& encoder(XDR* xdr) { return *static_cast<XdrEncoder*>(xdr->x_private); }
    static bool_t get_long(XDR* /*xdr*/, long* /*value*/) { return FALSE; }
    static bool_t put_long(XDR* xdr, const long* value) {
        return encoder(xdr).put_u32(static_cast<std::uint32_t>(*value)) ? TRUE : FALSE;
    }
    static bool_t get_bytes(XDR* /*xdr*/, char* /*data*/, u_int /*octets*/) { return FALSE; }
    static bool_t put_bytes(XDR* xdr, const char* data, u_int octets) {
        return encoder(xdr).put_bytes(data, octets) ? TRUE : FALSE;
    }
    static u_int get_position(XDR* xdr) { return static_cast<u_int>(encoder(xdr).position_); }
    static bool_t set_position(XDR* xdr, u_int position) {
        XdrEncoder& self = encoder(xdr);
        if (position > self.end_) {
            return FALSE;
        }
        self.position_ = position;
        return TRUE;
    }
    static int32_t* reserve_inline(XDR* xdr, u_int octets) {
        XdrEncoder& self = encoder(xdr);
        // Words alone: what comes behind must be aligned.
        return octets % kWord == 0 && self.position_ % kWord == 0
                   ? reinterpret_cast<int32_t*>(self.reserve(octets))
                   : nullptr;
    }
    static void destroy(XDR* /*xdr*/) {}
    static bool_t control(XDR* /*xdr*/, int /*request*/, void* /*info*/) { return FALSE; }

    static constexpr XdrOps kOps = {get_long,     put_long,       get_bytes, put_bytes, get_position,
                                    set_position, reserve_inline, destroy,   control};
};

XdrEncoder::XdrEncoder() {
    xdr_.x_op = XDR_ENCODE;
    xdr_.x_ops = &EncoderOps::kOps;
    xdr_.x_private = this;
}

XdrEncoder::~XdrEncoder() { rpcrdma_free(memory_); }

void XdrEncoder::reset() {
    position_ = 0;
    end_ = 0;
    leave_out(nullptr, {});
    item_count_ = 0;
    padding_due_ = 0;
    is_ambiguous_ = false;
}

void XdrEncoder::leave_out(void* object, std::span<const rpcrdma_onc_item> items) {
    object_ = object;
    watched_ = items.first(std::min<std::size_t>(items.size(), RPCRDMA_MAX_ITEMS));
}

std::byte* XdrEncoder::reserve(std::size_t octets) {
    if (octets > kMostOctets - position_) {
        return nullptr;
    }
    const std::size_t needed = position_ + octets;
    if (needed > capacity_) {
        const std::size_t larger = std::max(kFirstOctets, std::bit_ceil(needed));
        auto* const memory = static_cast<std::byte*>(rpcrdma_alloc(larger));
        if (memory == nullptr) {
            return nullptr;
        }
        if (end_ != 0) {
            std::memcpy(memory, memory_, end_);
        }
        rpcrdma_free(memory_);
        memory_ = memory;
        capacity_ = larger;
    }
    std::byte* const at = memory_ + position_;
    position_ = needed;
    end_ = std::max(end_, position_);
    return at;
}

bool XdrEncoder::put_u32(std::uint32_t value) {
    std::byte* const at = reserve(kWord);
    if (at == nullptr) {
        return false;
    }
    const std::uint32_t word = htonl(value);
    std::memcpy(at, &word, kWord);
    return true;
}

void XdrEncoder::set_u32(std::size_t at, std::uint32_t value) {
    const std::uint32_t word = htonl(value);
    std::memcpy(memory_ + at, &word, kWord);
}

bool XdrEncoder::put_bytes(const char* data, std::size_t octets) {
    const std::size_t padding = padding_due_;
    padding_due_ = 0;
    if (padding != 0 && octets == padding) {
        return true;
    }
    if (take_out(data, octets)) {
        return true;
    }
    std::byte* const at = reserve(octets);
    if (at == nullptr) {
        return false;
    }
    std::memcpy(at, data, octets);
    return true;
}

bool XdrEncoder::ends_with_length(std::size_t octets) const {
    if (position_ < kWord || position_ % kWord != 0 || position_ != end_) {
        return false;
    }
    std::uint32_t word = 0;
    std::memcpy(&word, memory_ + position_ - kWord, kWord);
    return ntohl(word) == octets;
}

bool XdrEncoder::take_out(const char* data, std::size_t octets) {
    for (std::uint32_t i = 0; i < watched_.size() && octets != 0; ++i) {
        if (octets < watched_[i].least_octets || data_pointer(watched_[i], object_) != data ||
            !ends_with_length(octets)) {
            continue;
        }
        if (i < item_count_) {
            // Its number is past: taken out already, or out of the order of the table.
            is_ambiguous_ = is_ambiguous_ || (items_[i].data == data && items_[i].octets == octets);
            continue;
        }
        while (item_count_ < i) {
            items_[item_count_++] = {.at = position_, .data = nullptr, .octets = 0};
        }
        items_[item_count_++] = {.at = position_, .data = data, .octets = octets};
        padding_due_ = (kWord - octets % kWord) % kWord;
        return true;
    }
    return false;
}

rpcrdma_message XdrEncoder::message() const {
    return {.stream = memory_, .stream_octets = end_, .items = items_.data(), .item_count = item_count_};
}

void* XdrEncoder::release() {
    void* const memory = memory_;
    memory_ = nullptr;
    capacity_ = 0;
    reset();
    return memory;
}

}  // namespace urnic::rpcrdma::onc
