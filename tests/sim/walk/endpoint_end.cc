// How one end of a connection goes, in good order or not.
#include "tests/sim/walk/endpoint.h"

namespace urnic::sim {

void Endpoint::check_all_flushed() {
    if (!outgoing().nothing_to_report() || !receives_.empty()) {
        fail("in ERR, " + std::to_string(outgoing().outstanding()) + " requests and " +
             std::to_string(receives_.size()) + " receives were not flushed");
    }
}

bool Endpoint::close() {
    is_broken_ = true;
    if (is_closed()) {
        return true;
    }
    ++close_step_;
    constexpr std::uint32_t kFlushBegins = 4;
    constexpr std::uint32_t kFlushEnds = 7;
    if (close_step_ < kFlushBegins) {
        // Not every application notices at once; some go on posting, which a QP in ERR flushes too.
        if (random().chance(300)) {
            drop_qp();
        } else if (state() == QpState::kErr && revoked_ != Revoked::kLanding && random().chance(500)) {
            post_receives();
            for (std::uint64_t count = random().below(3); count != 0 && send_room() != 0; --count) {
                post_send(false);
            }
            home_.device.ring(*qp_);
        }
        poll();
    } else if (close_step_ == kFlushBegins) {
        moved_to_error_ = true;
        to_state(QpState::kErr);
    } else if (close_step_ == kFlushEnds) {
        check_all_flushed();
        drop_qp();
    }
    return is_closed();
}

// To RESET or away, with whatever is under way.
void Endpoint::drop_qp() {
    poll();
    if (random().chance(500)) {
        to_state(QpState::kReset);
    } else {
        note("destroys QP " + std::to_string(qp_->qp().qp_num()));
        home_.device.destroy_qp(*qp_);
        qp_ = nullptr;
    }
    if (!pushed_[0].empty() || !pushed_[1].empty()) {
        fail("completions that were made could not be polled");
    }
    receives_.clear();
    send_done_ = recv_done_ = 0;
}

void Endpoint::settle() {
    check_frozen();
    incoming_.settle();
    if (!incoming_.failure().empty()) {
        fail("after the peer's requests " + incoming_.failure());
    }
}

void Endpoint::check_end() {
    check_frozen();
    incoming_.check_memory();
    if (!incoming_.failure().empty()) {
        fail("of the peer " + incoming_.failure());
    }
    is_broken_ = true;
    moved_to_error_ = true;
    to_state(QpState::kErr);
    check_all_flushed();
    drop_qp();
}

}  // namespace urnic::sim
