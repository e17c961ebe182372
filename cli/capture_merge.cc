#include "cli/capture_merge.h"

#include <algorithm>
#include <limits>

namespace urnic::cli {

namespace {

bool is_older(const CaptureMerge::Record* a, const CaptureMerge::Record* b) {
    return a->header.time_ns < b->header.time_ns;
}

}  // namespace

bool CaptureMerge::look(Ring& ring, std::uint64_t until_ns) {
    Record record;
    CaptureRingReader::Found found = CaptureRingReader::Found::kNothing;
    ring.records.clear();
    ring.reader.look();
    while (ring.records.size() < kMostRecords &&
           (found = ring.reader.next(until_ns, record)) == CaptureRingReader::Found::kRecord) {
        ring.records.push_back(record);
        ring.reader.skip(record);
    }
    ring.taken = ring.records.size();
    return found != CaptureRingReader::Found::kDamage;
}

/// Up to the first that is younger. Returns the time of the oldest that is left.
std::uint64_t CaptureMerge::cut(Ring& ring, std::uint64_t at_ns) {
    const auto first = std::find_if(ring.records.begin(), ring.records.end(),
                                    [&](const Record& record) { return record.header.time_ns > at_ns; });
    ring.taken = static_cast<std::size_t>(first - ring.records.begin());
    return ring.taken == ring.records.size() ? std::numeric_limits<std::uint64_t>::max()
                                             : ring.oldest[ring.taken];
}

/// Leaves what may be younger than a record that was not looked at, so that nothing that is left is older
/// than what is taken. A worker writes the answers to a packet before the packet itself.
void CaptureMerge::leave_youngest() {
    constexpr std::size_t kMostAnswers = 256;
    std::uint64_t cut_ns = std::numeric_limits<std::uint64_t>::max();
    for (Ring& ring : rings_) {
        ring.oldest.resize(ring.records.size());
        std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
        for (std::size_t i = ring.records.size(); i-- > 0;) {
            oldest = std::min(oldest, ring.records[i].header.time_ns);
            ring.oldest[i] = oldest;
        }
        if (ring.records.size() == kMostRecords) {
            cut_ns = std::min(cut_ns, ring.oldest[kMostRecords - kMostAnswers]);
        }
    }
    for (std::uint64_t before = 0; before != cut_ns;) {
        before = cut_ns;
        for (Ring& ring : rings_) cut_ns = std::min(cut_ns, cut(ring, cut_ns));
    }
    const auto is_left = [](const Ring& ring) { return ring.taken == 0; };
    if (std::all_of(rings_.begin(), rings_.end(), is_left)) {
        for (Ring& ring : rings_) ring.taken = ring.records.size();  // of no order at all
    }
}

/// Behind what is there. They are nearly in order, but for packets behind their answers.
void CaptureMerge::put_in_order(std::span<const Record> records) {
    const auto middle = static_cast<std::ptrdiff_t>(in_order_.size());
    for (const Record& record : records) {
        in_order_.push_back(&record);
        for (std::size_t i = in_order_.size() - 1;
             i > static_cast<std::size_t>(middle) && is_older(in_order_[i], in_order_[i - 1]); --i) {
            std::swap(in_order_[i], in_order_[i - 1]);
        }
    }
    if (middle != 0 && !records.empty()) {
        std::inplace_merge(in_order_.begin(), in_order_.begin() + middle, in_order_.end(), is_older);
    }
}

bool CaptureMerge::read(std::uint64_t until_ns) {
    has_more_ = false;
    for (Ring& ring : rings_) {
        ring.reader.release();
        if (!look(ring, until_ns)) return false;
        has_more_ = has_more_ || ring.records.size() == kMostRecords;
    }
    if (has_more_) leave_youngest();
    in_order_.clear();
    for (Ring& ring : rings_) {
        if (ring.taken != ring.records.size()) ring.reader.go_back_to(ring.records[ring.taken]);
        put_in_order(std::span(ring.records).first(ring.taken));
    }
    return true;
}

CaptureMerge::Counts CaptureMerge::counts(std::uint16_t rnic) const {
    Counts counts;
    for (const Ring& ring : rings_) {
        const Counts of_ring = ring.reader.counts(rnic);
        counts.seen += of_ring.seen;
        counts.lost += of_ring.lost;
    }
    return counts;
}

}  // namespace urnic::cli
