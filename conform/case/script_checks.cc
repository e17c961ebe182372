// The steps that look at completions, events and memory.
#include <algorithm>
#include <cstring>

#include "conform/case/script.h"

namespace urnic::conform {

namespace {

template <typename List, typename Text>
std::string joined(const List& list, Text text) {
    std::string result;
    for (const auto& item : list) {
        result += (result.empty() ? "" : ", ") + text(item);
    }
    return result.empty() ? "none" : result;
}

std::string wc_text(std::uint64_t wr_id, WcStatus status) {
    return "{wr_id " + std::to_string(wr_id) + ", status " + std::to_string(static_cast<unsigned>(status)) +
           "}";
}

}  // namespace

void Script::compare_completions(bool recv, const std::vector<SeenCompletion>& seen, const Wcs& expected,
                                 Where where) const {
    const auto matches = [](const SeenCompletion& cqe, const Wc& wc) {
        const bool is_ok = cqe.status == WcStatus::kSuccess;
        return cqe.wr_id == wc.wr_id && cqe.status == wc.status &&
               (!wc.byte_len || cqe.byte_len == *wc.byte_len) &&
               (!wc.opcode || !is_ok || static_cast<WcOpcode>(cqe.opcode) == *wc.opcode) &&
               (!wc.wqe_index || !cqe.wqe_index || cqe.wqe_index == wc.wqe_index) &&
               (!wc.imm || ((cqe.flags & kWcWithImm) != 0 && cqe.imm_or_rkey == *wc.imm)) &&
               (!wc.invalidated || ((cqe.flags & kWcWithInv) != 0 && cqe.imm_or_rkey == *wc.invalidated));
    };
    if (std::equal(seen.begin(), seen.end(), expected.begin(), expected.end(), matches)) {
        return;
    }
    const auto seen_text = [](const SeenCompletion& cqe) {
        return wc_text(cqe.wr_id, cqe.status) + " opcode " + std::to_string(unsigned{cqe.opcode}) +
               " byte_len " + std::to_string(cqe.byte_len);
    };
    const auto expected_text = [](const Wc& wc) {
        return wc_text(wc.wr_id, wc.status) +
               (wc.opcode ? " opcode " + std::to_string(static_cast<unsigned>(*wc.opcode)) : "") +
               (wc.byte_len ? " byte_len " + std::to_string(*wc.byte_len) : "");
    };
    fail(where, std::string(recv ? "receive" : "send") + " completions\n  expected " +
                    joined(expected, expected_text) + "\n      seen " + joined(seen, seen_text));
}

void Script::completes(const Wcs& expected, Where where) { check_completions(false, expected, where); }
void Script::receives(const Wcs& expected, Where where) { check_completions(true, expected, where); }

void Script::completes_within(TimeNs least, TimeNs most, const Wcs& expected, Where where) {
    const TimeNs start = now();
    silence(least - 1, where);
    std::vector<SeenCompletion> seen = bench_->completions(false, 0);
    // An answer that took so long does not say when it completed.
    if (bench_->real_now() + bench_->tolerance().early_ns < start + least) {
        compare_completions(false, seen, {}, where);
    }
    wait(start + most - std::min(now(), start + most));
    if (seen.size() < expected.size()) {
        const std::vector<SeenCompletion> rest = bench_->completions(false, expected.size() - seen.size());
        seen.insert(seen.end(), rest.begin(), rest.end());
    }
    compare_completions(false, seen, expected, where);
}

void Script::raises(const std::vector<AsyncEventType>& expected, Where where) {
    std::vector<AsyncEventType> hoped = expected;
    if (bench_->tolerance().takes_what_specification_leaves_open) {
        std::erase(hoped, AsyncEventType::kCommEst);
    }
    std::vector<AsyncEventType> seen = bench_->events(hoped.size());
    if (bench_->tolerance().takes_what_specification_leaves_open) {
        std::erase(seen, AsyncEventType::kCommEst);
    }
    const bool is_open = bench_->tolerance().takes_what_specification_leaves_open;
    if (is_open && seen.empty() && !hoped.empty()) {
        // Nothing on the wire is wrong.
        deviations_.push_back("asynchronous event " + std::to_string(static_cast<unsigned>(hoped.front())) +
                              " was not raised");
        return;
    }
    const auto last_wqe = std::find(hoped.begin(), hoped.end(), AsyncEventType::kQpLastWqeReached);
    if (is_open && last_wqe != hoped.end() && seen != hoped) {
        hoped.erase(last_wqe);
        deviations_.emplace_back("the event Last WQE Reached was not raised");
    }
    if (seen != hoped) {
        const auto text = [](AsyncEventType type) { return std::to_string(static_cast<unsigned>(type)); };
        fail(where, "events\n  expected " + joined(hoped, text) + "\n      seen " + joined(seen, text));
    }
}

void Script::refuses(std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome, Where where) {
    sends(nak(psn, msn, syndrome), where);
    state(QpState::kErr, where);
    raises({syndrome == wire::kNakInvalidRequest      ? AsyncEventType::kQpReqErr
            : syndrome == wire::kNakRemoteAccessError ? AsyncEventType::kQpAccessErr
                                                      : AsyncEventType::kQpFatal},
           where);
}

void Script::fails_at_home(SendRequest request, WcStatus status, Where where) {
    request.wr_id = 2;
    post_receive(100, 64);
    post({write(1, 8), request, write(3, 8)});
    sends(write_only(1000, 8), where);
    peer(ack(1000, 1));
    completes({ok(1), failed(2, status), flushed(3)}, where);
    receives(flushed(100), where);
    state(QpState::kErr, where);
}

void Script::check_nothing_left(Where where) {
    if (!created_ || !rest_is_checked_) {
        return;
    }
    sends_nothing(where);
    completes({}, where);
    receives({}, where);
    raises({}, where);
}

void Script::holds_peer_data(std::size_t offset, std::size_t length, std::size_t peer_offset, Where where) {
    region_holds(memory(), offset, length, peer_offset, where);
}

void Script::region_holds(Region& region, std::size_t offset, std::size_t length, std::size_t peer_offset,
                          Where where) {
    FrameBytes seen(length);
    region.read(offset, seen);
    if (std::memcmp(seen.data(), peer_data().data() + peer_offset, length) != 0) {
        fail(where, "memory at " + std::to_string(offset) + " is not the peer's data of " +
                        std::to_string(peer_offset) + ", length " + std::to_string(length));
    }
}

void Script::region_is(Region& region, std::size_t length, std::byte value, Where where) {
    FrameBytes seen(length);
    region.read(0, seen);
    if (std::any_of(seen.begin(), seen.end(), [value](std::byte byte) { return byte != value; })) {
        fail(where, "a region of " + std::to_string(length) + " bytes is not as it was");
    }
}

void Script::counts(Counter Counters::*which, std::uint64_t value, Where where) {
    const std::optional<std::uint64_t> seen = bench_->counter(which);
    if (seen && *seen != value) {
        fail(where, "a counter is " + std::to_string(*seen) + ", not " + std::to_string(value));
    }
}

void Script::holds_own_data(std::size_t offset, std::size_t length, Where where) {
    FrameBytes seen(length);
    memory().read(offset, seen);
    if (std::memcmp(seen.data(), own_data().data() + offset, length) != 0) {
        fail(where, "memory at " + std::to_string(offset) + ", length " + std::to_string(length) +
                        " is not as it was in the beginning");
    }
}

void Script::set_word(std::size_t offset, std::uint64_t value) {
    memory().write(offset, std::as_bytes(std::span(&value, 1)));
}

void Script::holds_word(std::size_t offset, std::uint64_t value, Where where) {
    std::uint64_t seen = 0;
    memory().read(offset, std::as_writable_bytes(std::span(&seen, 1)));
    if (seen != value) {
        fail(where, "the word at " + std::to_string(offset) + " is " + std::to_string(seen) + ", not " +
                        std::to_string(value));
    }
}

}  // namespace urnic::conform
