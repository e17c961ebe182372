// What an application does to itself and its peer now and then: it gives up, takes keys away that are in use,
// polls too late. And what has to follow from it.
#include <algorithm>

#include "tests/sim/walk/endpoint.h"

namespace urnic::sim {

void Endpoint::make_trouble() {
    const std::uint64_t gives_up = revoked_ == Revoked::kNothing ? shared_.plan.abort_per_10000 : 1'000;
    if (random().below(10'000) < gives_up) {
        note("gives up");
        is_broken_ = true;
    } else if (revoked_ == Revoked::kNothing && random().below(10'000) < shared_.plan.revoke_per_10000) {
        revoke();
    }
}

// --- Keys ------------------------------------------------------------------------------------------------

// From now on not a byte of the memory behind the key may change, whatever is under way.
void Endpoint::revoke() {
    constexpr std::array kChoices = {Revoked::kArea, Revoked::kArea, Revoked::kLanding, Revoked::kReceives};
    revoked_ = kChoices[random().below(kChoices.size())];
    const Region& region = revoked_region();
    note("revokes key " + std::to_string(region.key()));
    home_.device.revoke(region);
    ++shared_.trouble.revoked;
    frozen_.assign(region.data(), region.data() + region.size());
    if (revoked_ != Revoked::kLanding) {
        incoming_.expect_errors();
    }
}

Region& Endpoint::revoked_region() {
    return revoked_ == Revoked::kArea ? area_ : revoked_ == Revoked::kLanding ? landing_ : receive_region_;
}

// What the peer asks of this end's area from now on has to fail.
void Endpoint::spoil_revoked(Operation& operation) const {
    if (revoked_ == Revoked::kArea && (operation.is_write() || operation.is_read()) &&
        operation.length != 0 && operation.poison == WcStatus::kSuccess) {
        operation.poison = WcStatus::kRemAccessErr;
    }
}

void Endpoint::check_frozen() {
    if (revoked_ != Revoked::kNothing &&
        !std::equal(frozen_.begin(), frozen_.end(), revoked_region().data())) {
        fail("memory changed after its key was revoked");
    }
}

// Before the next connection.
void Endpoint::register_again() {
    if (revoked_ == Revoked::kNothing) {
        return;
    }
    Region& region = revoked_region();
    region = home_.device.register_memory(region.data(), region.size(), kAllAccess, !random().chance(250));
    maker_->set_landing(landing_);
    peer_->maker_->set_area(area_);
    revoked_ = Revoked::kNothing;
}

// --- Completions that find no room -----------------------------------------------------------------------

// The CQ is full: the completion is lost, and the QP goes to ERR before it makes another (IBA 10.10.2.4).
void Endpoint::lost(const Completion& completion) {
    const CompletionRing* cq = completion.is_recv ? recv_cq_ : send_cq_;
    std::size_t waiting = 0;
    for (const Endpoint* each : shared_.endpoints) {
        waiting += each->send_cq_ == cq ? each->pushed_[0].size() : 0;
        waiting += each->recv_cq_ == cq ? each->pushed_[1].size() : 0;
    }
    if (waiting != shared_.plan.cq_entries) {
        fail("a completion was lost with " + std::to_string(waiting) + " others in the CQ");
    }
    lost_completion_ = true;
    ++shared_.trouble.lost;
}

// --- Retries ---------------------------------------------------------------------------------------------

// NAKs and missing responses use up retries too; those of all QPs of the device are counted together.
std::uint64_t Endpoint::refusals() const {
    const Counters& counters = home_.device.counters;
    return counters.packet_seq_err.value() + counters.implied_nak_seq_err.value();
}

void Endpoint::begin_patience() {
    patient_since_ = shared_.network.now();
    refusals_before_ = refusals();
}

// A peer that says nothing gets the whole time: retry_cnt + 1 times the timeout (IBA 9.7.6.1.3).
void Endpoint::check_patience(WcStatus status) {
    const TimeNs waited = shared_.network.now() - patient_since_;
    const TimeNs least = (options_.retry_cnt + TimeNs{1}) * (TimeNs{4'096} << options_.timeout);
    if (status != WcStatus::kRetryExcErr || refusals() != refusals_before_) {
        return;
    }
    ++shared_.trouble.gave_up;
    if (waited < least) {
        fail("gave up after " + std::to_string(waited) + " ns, at least " + std::to_string(least) +
             " ns are due");
    }
}

}  // namespace urnic::sim
