#include "tests/sim/walk/oracle.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace urnic::sim {

namespace {

WcOpcode completion_opcode(const Operation& operation) {
    switch (operation.opcode) {
        case WrOpcode::kWrite:
        case WrOpcode::kWriteWithImm:
            return WcOpcode::kRdmaWrite;
        case WrOpcode::kRead:
            return WcOpcode::kRdmaRead;
        case WrOpcode::kCompareSwap:
            return WcOpcode::kCompSwap;
        case WrOpcode::kFetchAdd:
            return WcOpcode::kFetchAdd;
        case WrOpcode::kBindMw:
            return WcOpcode::kBindMw;
        default:
            return WcOpcode::kSend;
    }
}

}  // namespace

void OracleStats::add(const OracleStats& other) {
    messages += other.messages;
    bytes += other.bytes;
    receives += other.receives;
    atomics += other.atomics;
    reads += other.reads;
    errors += other.errors;
    flushed += other.flushed;
}

Oracle::Oracle(const Target& target)
    : target_(target), area_(target.area.begin(), target.area.end()), ring_(kCapacity), messages_(kCapacity) {
    URNIC_CHECK(target.words.size() == kWords);
    std::copy(target.words.begin(), target.words.end(), words_.begin());
}

void Oracle::fail(const std::string& what) {
    if (failure_.empty()) {
        failure_ = what;
    }
}

void Oracle::fail(const Operation& operation, const std::string& what) {
    fail("operation " + std::to_string(operation.number) + " (opcode " +
         std::to_string(static_cast<int>(operation.opcode)) + ", " + std::to_string(operation.length) +
         " bytes, flags " + std::to_string(operation.flags) + ") " + what);
}

Operation& Oracle::next() {
    URNIC_CHECK(has_room());
    Operation& operation = at(posted_);
    std::vector<std::byte> kept = std::move(operation.expected);
    operation = Operation{};
    operation.expected = std::move(kept);
    operation.number = posted_;
    return operation;
}

void Oracle::post() {
    Operation& operation = at(posted_);
    poison_posted_ |= operation.poison != WcStatus::kSuccess;
    if (operation.takes_receive()) {
        operation.message = messages_posted_++;
        messages_[operation.message % kCapacity] = posted_;
    }
    ++posted_;
}

bool Oracle::must_fence(std::uint64_t offset, std::uint64_t length) const {
    for (std::uint64_t number = posted_; number-- != next_;) {
        const Operation& operation = at(number);
        if (operation.is_read() && operation.overlaps(offset, length)) {
            return true;
        }
        if ((operation.flags & kSendFence) != 0) {
            return false;  // all before it complete before anything behind it is sent
        }
    }
    return false;
}

std::uint64_t Oracle::predicted_word(std::uint64_t word) const {
    std::uint64_t value = words_[word];
    for (std::uint64_t number = committed_; number != posted_; ++number) {
        const Operation& operation = at(number);
        if (operation.is_atomic() && !operation.is_shared_counter && operation.offset == word) {
            value = after(operation, value);
        }
    }
    return value;
}

std::uint64_t Oracle::landing_begin() const {
    return drained() ? ~std::uint64_t{0} : at(next_).landing_begin;
}

bool Oracle::nothing_to_report() const {
    for (std::uint64_t number = next_; number != posted_; ++number) {
        if (failed_ || at(number).signaled) {
            return false;
        }
    }
    return true;
}

void Oracle::sent(const Completion& completion, const AllowedErrors& allowed) {
    std::uint64_t number = next_;
    const bool is_error = completion.status != WcStatus::kSuccess;
    while (number != posted_ && at(number).number != completion.wr_id) {
        const Operation& skipped = at(number);
        if (skipped.signaled || failed_) {
            fail(skipped, "has no completion, the next is of operation " + std::to_string(completion.wr_id));
            return;
        }
        ++number;
    }
    if (number == posted_) {
        fail("a completion of operation " + std::to_string(completion.wr_id) +
             ", which is not outstanding (status " + std::to_string(static_cast<int>(completion.status)) +
             ")");
        return;
    }
    const Operation& operation = at(number);
    if (completion.wqe_index != operation.wqe_index) {
        fail(operation, "completed with the index " + std::to_string(completion.wqe_index));
    }
    if (is_error) {
        sent_error(number, completion, allowed);
        return;
    }
    if (failed_ || operation.poison != WcStatus::kSuccess) {
        fail(operation, "succeeded where it could not");
    } else if (!operation.signaled) {
        fail(operation, "completed and was not signaled");
    } else if (completion.opcode != completion_opcode(operation)) {
        fail(operation, "completed as " + std::to_string(static_cast<int>(completion.opcode)));
    } else if ((operation.is_read() || operation.is_atomic()) && completion.byte_len != operation.length) {
        fail(operation, "completed with a length of " + std::to_string(completion.byte_len));
    } else {
        finish_through(number);
    }
}

void Oracle::sent_error(std::uint64_t number, const Completion& completion, const AllowedErrors& allowed) {
    if (failed_) {
        ++stats_.flushed;
        if (completion.status != WcStatus::kWrFlushErr) {
            fail(at(number), "has status " + std::to_string(static_cast<int>(completion.status)) +
                                 " behind the first error");
        }
        next_ = number + 1;
        return;
    }
    // Requests before it that were not signaled succeeded, or it could not be the first to fail.
    if (number != next_) {
        finish_through(number - 1);
    }
    const Operation& operation = at(number);
    const bool is_right =
        completion.status == operation.poison ||
        (completion.status == WcStatus::kRetryExcErr && allowed.retry_exceeded) ||
        (completion.status == WcStatus::kRnrRetryExcErr && allowed.rnr_retry_exceeded &&
         operation.takes_receive()) ||
        (completion.status == WcStatus::kRemAccessErr && allowed.remote_access &&
         (operation.is_write() || operation.is_read()) && operation.length != 0) ||
        (completion.status == WcStatus::kRemOpErr && allowed.remote_operational && operation.is_send() &&
         operation.length != 0) ||
        (completion.status == WcStatus::kLocProtErr && allowed.local_protection && operation.length != 0) ||
        (completion.status == WcStatus::kWrFlushErr && allowed.flush);
    if (!is_right) {
        fail(operation, "failed with status " + std::to_string(static_cast<int>(completion.status)) +
                            ", expected " +
                            (operation.poison == WcStatus::kSuccess
                                 ? "success"
                                 : "status " + std::to_string(static_cast<int>(operation.poison))));
    }
    failed_ = true;
    ++stats_.errors;
    next_ = number + 1;
}

bool Oracle::next_message_fails_receive() const {
    if (messages_received_ == messages_posted_) {
        return false;
    }
    const Operation& operation = at(messages_[messages_received_ % kCapacity]);
    return operation.is_send() && operation.poison != WcStatus::kSuccess;
}

void Oracle::received(const Completion& completion, std::span<const Piece> buffer) {
    if (messages_received_ == messages_posted_) {
        fail("a receive completed, and nothing was sent for it");
        return;
    }
    const std::uint64_t number = messages_[messages_received_++ % kCapacity];
    Operation& operation = at(number);
    const bool has_imm = (completion.wc_flags & kWcWithImm) != 0;
    const WcOpcode opcode = operation.is_write() ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv;
    if (completion.byte_len != operation.length || completion.opcode != opcode ||
        has_imm != operation.has_imm() || (has_imm && completion.imm_or_rkey != operation.imm)) {
        fail(operation, "was received as another: opcode " +
                            std::to_string(static_cast<int>(completion.opcode)) + ", " +
                            std::to_string(completion.byte_len) + " bytes, immediate " +
                            std::to_string(completion.imm_or_rkey));
        return;
    }
    if (completion.solicited != ((operation.flags & kSendSolicited) != 0)) {
        fail(operation, "was received with the wrong solicited bit");
    }
    if (operation.is_send() && !same_bytes(operation.piece_list(), buffer, operation.length)) {
        fail(operation, "was received with wrong data");
    }
    operation.received = true;
    ++stats_.receives;
    commit_through(number, false);
}

// Everything up to `last` is done with, as seen by the requester.
void Oracle::finish_through(std::uint64_t last) {
    commit_through(last, true);
    for (; next_ <= last; ++next_) {
        Operation& operation = at(next_);
        if (operation.takes_receive() && !operation.received) {
            fail(operation, "completed before it was received");
        }
        if (operation.is_read() || operation.is_atomic()) {
            check_landing(operation);
        }
        stats_.reads += operation.is_read() ? 1 : 0;
        stats_.atomics += operation.is_atomic() ? 1 : 0;
        ++stats_.messages;
        stats_.bytes += operation.length;
    }
    first_ = next_;
}

void Oracle::commit_through(std::uint64_t last, bool finishes) {
    const std::uint64_t begin = committed_;
    for (; committed_ <= last; ++committed_) {
        Operation& operation = at(committed_);
        if (operation.poison != WcStatus::kSuccess) {
            fail(operation, "was executed, and it could not be");
            return;
        }
        commit(operation, finishes);
    }
    for (std::uint64_t number = begin; number < committed_; ++number) {
        const Operation& operation = at(number);
        if (operation.is_write()) {
            check_written(operation);
        } else if (operation.is_atomic() && !operation.is_shared_counter) {
            check_word(operation);
        }
    }
}

void Oracle::commit(Operation& operation, bool finishes) {
    operation.committed = true;
    if ((operation.flags & kSendFence) != 0) {
        check_fence(operation);
    }
    if (operation.is_write()) {
        copy_pieces(operation.piece_list(), area_.data() + operation.offset);
    } else if (operation.is_read() && finishes) {
        if (!pieces_are(operation.piece_list(), area_.data() + operation.offset, operation.length)) {
            fail(operation, "brought wrong data");
        }
    } else if (operation.is_read()) {
        const std::byte* from = area_.data() + operation.offset;
        operation.expected.assign(from, from + operation.length);
        operation.has_expected = true;
    } else if (operation.is_atomic() && !operation.is_shared_counter) {
        commit_atomic(operation);
    }
}

std::uint64_t Oracle::after(const Operation& operation, std::uint64_t before) {
    if (operation.opcode == WrOpcode::kFetchAdd) {
        return before + operation.compare_add;
    }
    return before == operation.compare_add ? operation.swap : before;
}

void Oracle::commit_atomic(Operation& operation) {
    std::uint64_t& word = words_[operation.offset];
    operation.original = word;
    word = after(operation, word);
}

void Oracle::check_landing(Operation& operation) {
    if (operation.is_shared_counter) {
        check_counter(operation);
        return;
    }
    if (operation.is_atomic()) {
        std::array<std::byte, sizeof(std::uint64_t)> bytes;
        std::memcpy(bytes.data(), &operation.original, bytes.size());
        if (!pieces_are(operation.piece_list(), bytes.data(), bytes.size())) {
            fail(operation, "brought a wrong original value");
        }
        return;
    }
    if (operation.has_expected &&
        !pieces_are(operation.piece_list(), operation.expected.data(), operation.length)) {
        fail(operation, "brought wrong data");
    }
    constexpr std::size_t kKeep = 65'536;
    if (operation.expected.capacity() > kKeep) {
        operation.expected = {};
    }
}

void Oracle::check_counter(const Operation& operation) {
    SharedCounter& counter = *target_.counter;
    std::uint64_t original = 0;
    copy_pieces(operation.piece_list(), reinterpret_cast<std::byte*>(&original));
    if (original >= *counter.word) {
        fail(operation, "brought the value " + std::to_string(original) + " of a counter that stands at " +
                            std::to_string(*counter.word));
        return;
    }
    counter.returned.resize(std::max<std::size_t>(counter.returned.size(), original + 1));
    if (counter.returned[original]) {
        fail(operation, "brought the value " + std::to_string(original) + ", as another did before");
    }
    counter.returned[original] = true;
    ++counter.confirmed;
}

// A fenced operation was executed: every READ before it has its data (IBA 10.8.3.3).
void Oracle::check_fence(const Operation& operation) {
    for (std::uint64_t number = next_; number < operation.number; ++number) {
        const Operation& before = at(number);
        if (before.is_read() && before.has_expected &&
            !pieces_are(before.piece_list(), before.expected.data(), before.length)) {
            fail(operation, "did not wait for READ " + std::to_string(number) + " in spite of its fence");
        }
    }
}

void Oracle::check_written(const Operation& operation) {
    compare_area(operation.offset, operation.length, posted_);
}

void Oracle::check_word(const Operation& operation) {
    std::uint64_t value = words_[operation.offset];
    const std::uint64_t actual = target_.words[operation.offset];
    bool agrees = value == actual;
    for (std::uint64_t number = committed_; number != posted_ && !agrees; ++number) {
        const Operation& later = at(number);
        if (later.is_atomic() && !later.is_shared_counter && later.offset == operation.offset) {
            value = after(later, value);
            agrees = value == actual;
        }
    }
    if (!agrees) {
        fail(operation, "left the word " + std::to_string(operation.offset) + " at " +
                            std::to_string(actual) + ", expected " +
                            std::to_string(words_[operation.offset]));
    }
}

// Operations from committed_ to `open_end` may have been executed, wholly or in part.
void Oracle::compare_area(std::uint64_t offset, std::uint64_t length, std::uint64_t open_end) {
    const std::byte* actual = target_.area.data() + offset;
    const std::byte* model = area_.data() + offset;
    if (length == 0 || std::memcmp(actual, model, length) == 0) {
        return;
    }
    std::vector<const Operation*> open;
    for (std::uint64_t number = committed_; number != open_end; ++number) {
        if (at(number).is_write() && at(number).overlaps(offset, length)) {
            open.push_back(&at(number));
        }
    }
    for (std::uint64_t i = 0; i < length; ++i) {
        const std::uint64_t place = offset + i;
        const auto explains = [&](const Operation* write) {
            const std::byte* byte = write->covers(place) ? write->byte_at(place - write->offset) : nullptr;
            return byte != nullptr && *byte == actual[i];
        };
        if (actual[i] != model[i] && std::none_of(open.begin(), open.end(), explains)) {
            fail("byte " + std::to_string(place) + " of the target's area is " +
                 std::to_string(std::to_integer<int>(actual[i])) + ", expected " +
                 std::to_string(std::to_integer<int>(model[i])) + " (committed up to operation " +
                 std::to_string(committed_) + ")");
            return;
        }
    }
}

// Nothing behind an operation that had to fail may have been executed, nor that operation itself; but the
// first packets of a message whose memory cannot be read to its end may have been.
std::uint64_t Oracle::settle_end() const {
    for (std::uint64_t number = committed_; number != posted_; ++number) {
        const WcStatus poison = at(number).poison;
        if (poison != WcStatus::kSuccess) {
            return poison == WcStatus::kLocProtErr ? number + 1 : number;
        }
    }
    return posted_;
}

void Oracle::settle() {
    const std::uint64_t end = settle_end();
    compare_area(0, area_.size(), end);
    for (std::size_t word = 0; word < kWords; ++word) {
        std::uint64_t value = words_[word];
        bool agrees = value == target_.words[word];
        for (std::uint64_t number = committed_; number != end && !agrees; ++number) {
            const Operation& open = at(number);
            if (open.is_atomic() && !open.is_shared_counter && open.poison == WcStatus::kSuccess &&
                open.offset == word) {
                value = after(open, value);
                agrees = value == target_.words[word];
            }
        }
        if (!agrees) {
            fail("word " + std::to_string(word) + " was left at " + std::to_string(target_.words[word]));
        }
        words_[word] = target_.words[word];
    }
    for (std::uint64_t number = next_; number != posted_; ++number) {
        // Not completed at all: the QP went to RESET before.
        target_.counter->uncertain += at(number).is_shared_counter ? 1 : 0;
    }
    for (std::uint64_t number = first_; number != next_; ++number) {
        target_.counter->uncertain += at(number).is_shared_counter ? 1 : 0;
    }
    std::copy(target_.area.begin(), target_.area.end(), area_.begin());
    first_ = next_ = committed_ = posted_;
    messages_received_ = messages_posted_ = 0;
    failed_ = false;
    poison_posted_ = false;
}

void Oracle::check_memory() {
    if (std::memcmp(area_.data(), target_.area.data(), area_.size()) != 0) {
        compare_area(0, area_.size(), committed_);
    }
    if (!std::equal(words_.begin(), words_.end(), target_.words.begin())) {
        fail("the atomics left wrong words");
    }
}

}  // namespace urnic::sim
