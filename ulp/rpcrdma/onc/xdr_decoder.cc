#include "ulp/rpcrdma/onc/xdr_decoder.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "ulp/rpcrdma/onc/ddp_table.h"
#include "ulp/rpcrdma/onc/libtirpc.h"

namespace urnic::rpcrdma::onc {

namespace {

constexpr std::size_t kXdrWord = BYTES_PER_XDR_UNIT;

/// xdr_bytes() allocates nothing for a pointer that is not null. This is no address of any memory, so that
/// who writes there (xdr_string() would) ends at once.
char* waiting_at(std::size_t item) {
    constexpr std::uintptr_t kNoAddress = std::uintptr_t{1} << 63U;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<char*>(kNoAddress + item);
}

}  // namespace

struct DecoderOps {
    static XdrDecoder& decoder(XDR* xdr) { return *static_cast<XdrDecoder*>(xdr->x_private); }
    static bool_t get_long(XDR* xdr, long* value) {
        const std::byte* const at = decoder(xdr).consume(kXdrWord);
        if (at == nullptr) {
            return FALSE;
        }
        std::uint32_t word = 0;
        std::memcpy(&word, at, kXdrWord);
        // Like libtirpc's own: callers cut it to 32 bits.
        *value = static_cast<long>(ntohl(word));
        return TRUE;
    }
    static bool_t put_long(XDR* /*xdr*/, const long* /*value*/) { return FALSE; }
    static bool_t get_bytes(XDR* xdr, char* data, u_int octets) {
        return decoder(xdr).get_bytes(data, octets) ? TRUE : FALSE;
    }
    static bool_t put_bytes(XDR* /*xdr*/, const char* /*data*/, u_int /*octets*/) { return FALSE; }
    static u_int get_position(XDR* xdr) { return static_cast<u_int>(decoder(xdr).position_); }
    static bool_t set_position(XDR* xdr, u_int position) {
        XdrDecoder& self = decoder(xdr);
        if (position > self.stream_.size()) {
            return FALSE;
        }
        self.position_ = position;
        return TRUE;
    }
    static int32_t* view_inline(XDR* xdr, u_int octets) {
        XdrDecoder& self = decoder(xdr);
        const auto address = reinterpret_cast<std::uintptr_t>(self.stream_.data()) + self.position_;
        if (octets % kXdrWord != 0 || address % alignof(int32_t) != 0) {
            return nullptr;
        }
        // Callers read it alone (x_op is XDR_DECODE).
        return reinterpret_cast<int32_t*>(const_cast<std::byte*>(self.consume(octets)));
    }
    static void destroy(XDR* /*xdr*/) {}
    static bool_t control(XDR* /*xdr*/, int /*request*/, void* /*info*/) { return FALSE; }

    static constexpr XdrOps kOps = {get_long,     put_long,    get_bytes, put_bytes, get_position,
                                    set_position, view_inline, destroy,   control};
};

XdrDecoder::XdrDecoder(std::span<const std::byte> stream) : stream_(stream) {
    xdr_.x_op = XDR_DECODE;
    xdr_.x_ops = &DecoderOps::kOps;
    xdr_.x_private = this;
}

void XdrDecoder::reset(std::span<const std::byte> stream) {
    stream_ = stream;
    position_ = 0;
    padding_due_ = 0;
    put_in(nullptr, {}, {});
}

void XdrDecoder::put_in(void* object, std::span<const rpcrdma_onc_item> items,
                        std::span<const ChunkData> chunks) {
    object_ = object;
    const std::size_t count = std::min({items.size(), chunks.size(), chunks_.size()});
    items_ = items.first(count);
    chunks_.fill({});
    std::copy_n(chunks.begin(), count, chunks_.begin());
}

void XdrDecoder::begin_in_place(void* object, std::span<const rpcrdma_onc_item> items) {
    in_place_object_ = object;
    in_place_ = items;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (items[i].side != RPCRDMA_ONC_ARGUMENT_IN_PLACE) {
            continue;
        }
        char** const place = place_of_data(items[i], object);
        if (place != nullptr && *place == nullptr) {
            *place = waiting_at(i);
        }
    }
}

char** XdrDecoder::waits_in_place(const char* data) const {
    for (std::size_t i = 0; i < in_place_.size(); ++i) {
        if (data == waiting_at(i)) {
            return place_of_data(in_place_[i], in_place_object_);
        }
    }
    return nullptr;
}

void XdrDecoder::end_in_place() {
    for (std::size_t i = 0; i < in_place_.size(); ++i) {
        char** const place = place_of_data(in_place_[i], in_place_object_);
        if (place != nullptr && *place == waiting_at(i)) {
            *place = nullptr;
        }
    }
    in_place_ = {};
    in_place_object_ = nullptr;
}

void XdrDecoder::forget_in_place(void* object, std::span<const rpcrdma_onc_item> items) const {
    for (const rpcrdma_onc_item& item : items) {
        char** const place =
            item.side == RPCRDMA_ONC_ARGUMENT_IN_PLACE ? place_of_data(item, object) : nullptr;
        if (place != nullptr && has_in_stream(*place)) {
            *place = nullptr;
        }
    }
}

bool XdrDecoder::has_in_stream(const void* data) const {
    // Not of one array to the language, so as numbers.
    return reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(stream_.data()) <
           stream_.size();
}

bool XdrDecoder::is_complete() const {
    return std::all_of(chunks_.begin(), chunks_.end(),
                       [](const ChunkData& chunk) { return chunk.octets == 0; });
}

const std::byte* XdrDecoder::consume(std::size_t octets) {
    if (octets > stream_.size() - position_) {
        return nullptr;
    }
    const std::byte* const at = stream_.data() + position_;
    position_ += octets;
    return at;
}

bool XdrDecoder::get_bytes(char* data, std::size_t octets) {
    const std::size_t padding = padding_due_;
    padding_due_ = 0;
    if (padding != 0 && octets == padding) {
        // As below.
        if (std::any_of(data, data + octets, [](char octet) { return octet != 0; })) {
            std::memset(data, 0, octets);
        }
        return true;
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
        ChunkData& chunk = chunks_[i];
        if ((chunk.octets == 0 && chunk.room == 0) || data_pointer(items_[i], object_) != data) {
            continue;
        }
        if (chunk.room != 0 && octets > chunk.room) {
            return false;
        }
        if (chunk.octets == 0) {
            break;
        }
        // Its length word was in the stream, and says how much there is.
        if (chunk.octets != octets) {
            return false;
        }
        if (reinterpret_cast<const std::byte*>(data) != chunk.memory) {
            std::memcpy(data, chunk.memory, octets);
        }
        chunk.octets = 0;
        padding_due_ = (kXdrWord - octets % kXdrWord) % kXdrWord;
        return true;
    }
    const bool is_padding = position_ % kXdrWord != 0;
    const std::byte* const at = consume(octets);
    if (at == nullptr) {
        return false;
    }
    if (char** const place = waits_in_place(data); place != nullptr) {
        // The memory of a Call is the server's own.
        *place = reinterpret_cast<char*>(const_cast<std::byte*>(at));
        return true;
    }
    // libtirpc has all threads put padding into one place: it stays unwritten while it is zero, as it has to
    // be.
    if (!is_padding || std::memcmp(data, at, octets) != 0) {
        std::memcpy(data, at, octets);
    }
    return true;
}

}  // namespace urnic::rpcrdma::onc
