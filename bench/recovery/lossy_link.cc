#include "bench/recovery/lossy_link.h"

#include <algorithm>

#include "base/check.h"

namespace urnic::recovery {

namespace {

// Preamble, start of frame, FCS and gap between frames.
constexpr std::size_t kEthernetOverheadBytes = 24;

bool happens(std::mt19937_64& random, double probability) {
    // Nothing is drawn for what cannot happen, so that each kind of fault has its figures whatever else there
    // is.
    return probability > 0 && std::uniform_real_distribution<>(0, 1)(random) < probability;
}

}  // namespace

LossyLink::LossyLink(const LinkSpec& spec, std::uint64_t seed) : spec_(spec) {
    ends_[0].random.seed(2 * seed);
    ends_[1].random.seed(2 * seed + 1);
}

void LossyLink::attach(sim::SimHost& host) {
    (ends_[0].host == nullptr ? ends_[0] : ends_[1]).host = &host;
    host.packets_per_progress = kTxQueueFrames;
}

std::unique_ptr<LossyLink::Frame> LossyLink::take_frame() {
    if (free_.empty()) {
        return std::make_unique<Frame>();
    }
    std::unique_ptr<Frame> frame = std::move(free_.back());
    free_.pop_back();
    return frame;
}

void LossyLink::deliver(End& from, sim::SimHost& to) {
    while (!from.on_link.empty() && from.on_link.front()->sent_at + spec_.delay_ns <= now_) {
        std::unique_ptr<Frame> frame = std::move(from.on_link.front());
        from.on_link.pop_front();
        if (frame->arrives_at != kNever) {
            wire::PacketView view;
            URNIC_CHECK(wire::parse_frame({frame->bytes.data(), frame->length}, view) ==
                        wire::ParseError::kNone);
            URNIC_CHECK(wire::icrc_ok(view));
            to.deliver(view);
        }
        free_.push_back(std::move(frame));
    }
}

void LossyLink::run() {
    for (End& end : ends_) {
        deliver(&end == &ends_[0] ? ends_[1] : ends_[0], *end.host);
        if (end.host->qp().deadline() <= now_) {
            end.host->qp().handle_timeout(now_, *end.host);
        }
        end.wants_room = end.host->progress_once();
    }
}

TimeNs LossyLink::next_event(const End& end) const {
    TimeNs next = end.host->qp().deadline();
    const auto arriving = std::find_if(end.on_link.begin(), end.on_link.end(),
                                       [](const auto& frame) { return frame->arrives_at != kNever; });
    if (arriving != end.on_link.end()) {
        next = std::min(next, (*arriving)->arrives_at);
    }
    if (end.wants_room && end.link_free_at > now_) {
        next = std::min(next, now_ + (end.link_free_at - now_) / 2);
    }
    return next;
}

void LossyLink::advance() {
    const TimeNs next = std::min(next_event(ends_[0]), next_event(ends_[1]));
    URNIC_CHECK(next != kNever);
    now_ = std::max(next, now_ + 1);
}

std::uint32_t LossyLink::room(const sim::SimHost& from) const {
    const std::deque<std::unique_ptr<Frame>>& on_link = ends_[index_of(from)].on_link;
    const auto waiting = std::count_if(on_link.rbegin(), on_link.rend(),
                                       [this](const auto& frame) { return frame->sent_at > now_; });
    return waiting >= kTxQueueFrames ? 0 : kTxQueueFrames - static_cast<std::uint32_t>(waiting);
}

bool LossyLink::transmit(sim::SimHost& from, const wire::Path& path, const wire::PacketHeader& header,
                         std::span<const MemoryPiece> pieces) {
    End& end = ends_[index_of(from)];
    std::unique_ptr<Frame> frame = take_frame();
    frame->length = wire::build_frame(path, header, pieces, frame->bytes);
    URNIC_CHECK(frame->length != 0);
    const double bits = static_cast<double>(frame->length + kEthernetOverheadBytes) * 8;
    const auto duration = static_cast<TimeNs>(bits / spec_.gbit_per_s);
    end.link_free_at = std::max(end.link_free_at, now_) + duration;
    frame->sent_at = end.link_free_at + (happens(end.random, spec_.overtaken) ? kOvertakers * duration : 0);
    frame->arrives_at = happens(end.random, spec_.loss) ? kNever : frame->sent_at + spec_.delay_ns;
    const auto later = std::upper_bound(end.on_link.begin(), end.on_link.end(), frame->sent_at,
                                        [](TimeNs time, const auto& other) { return time < other->sent_at; });
    end.on_link.insert(later, std::move(frame));
    return true;
}

}  // namespace urnic::recovery
