// Handles that a client of the control fuzz target was given: an input that only guessed them would seldom
// name an object that is there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "daemon/ipc/message.h"
#include "tests/fuzz/input.h"

namespace urnic::daemon {

/// A kind of object: the request whose reply begins with its handle, and the one that ends it.
struct ObjectKind {
    abi::Op maker;
    abi::Op end;
};
constexpr ObjectKind kObjectKinds[] = {
    {abi::Op::kOpenDevice, abi::Op::kCloseDevice}, {abi::Op::kAllocPd, abi::Op::kDeallocPd},
    {abi::Op::kRegMr, abi::Op::kDeregMr},          {abi::Op::kCreateChannel, abi::Op::kDestroyChannel},
    {abi::Op::kCreateCq, abi::Op::kDestroyCq},     {abi::Op::kCreateQp, abi::Op::kDestroyQp},
    {abi::Op::kCreateAh, abi::Op::kDestroyAh},     {abi::Op::kCreateSrq, abi::Op::kDestroySrq},
    {abi::Op::kOpenXrcd, abi::Op::kCloseXrcd},     {abi::Op::kOpenXrcdOfFile, abi::Op::kCloseXrcd},
    {abi::Op::kOpenQp, abi::Op::kDestroyQp},
};

/// The maker of what a request with nothing but a handle names.
inline abi::Op maker_of(abi::Op op) {
    for (const ObjectKind& kind : kObjectKinds) {
        if (kind.end == op) {
            return kind.maker;
        }
    }
    if (op == abi::Op::kQuerySrq) {
        return abi::Op::kCreateSrq;
    }
    return op == abi::Op::kAllocPd || op == abi::Op::kCreateChannel ? abi::Op::kOpenDevice
                                                                    : abi::Op::kCreateQp;
}

class KnownHandles {
  public:
    /// The handle of something that `maker` has made, more often than not.
    std::uint32_t pick(fuzz::Input& input, abi::Op maker) {
        const std::vector<std::uint32_t>& known = by_maker_[maker];
        const std::uint8_t how = input.byte();
        return how < 0x20                     ? how
               : how < 0xe0 && !known.empty() ? known[how % known.size()]
               : how < 0xe0                   ? how % 0x20U
               : how < 0xf0                   ? input.number<std::uint16_t>()
                                              : input.number<std::uint32_t>();
    }
    /// After a request that succeeded. What went with its device stays known: a stale handle.
    void note(const Request& request, const Reply& reply) {
        for (const ObjectKind& kind : kObjectKinds) {
            if (kind.maker == request.header().op) {
                by_maker_[kind.maker].push_back(first_word(reply.bytes, sizeof(abi::ReplyHeader)));
            } else if (kind.end == request.header().op) {
                std::vector<std::uint32_t>& known = by_maker_[kind.maker];
                const std::uint32_t handle = first_word(request.bytes, sizeof(abi::RequestHeader));
                known.erase(std::remove(known.begin(), known.end(), handle), known.end());
            }
        }
    }

  private:
    template <typename Bytes>
    static std::uint32_t first_word(const Bytes& message, std::size_t header_bytes) {
        std::uint32_t word = 0;
        std::memcpy(&word, message.data() + header_bytes, sizeof word);
        return word;
    }
    std::map<abi::Op, std::vector<std::uint32_t>> by_maker_;
};

}  // namespace urnic::daemon
