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

/// How many records are at the front of which none is younger than one behind them. A worker writes the
/// answers to a packet before the packet itself, so that what comes next may be older than the last ones.
std::size_t CaptureMerge::undisturbed(const std::vector<Record>& records) {
    constexpr std::size_t kMostAnswers = 256;
    youngest_.resize(records.size());
    std::uint64_t youngest = 0;
    for (std::size_t i = 0; i < records.size(); ++i) {
        youngest = std::max(youngest, records[i].header.time_ns);
        youngest_[i] = youngest;
    }
    std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = records.size() - 1; i > 0; --i) {
        oldest = std::min(oldest, records[i].header.time_ns);
        if (youngest_[i - 1] <= oldest && records.size() - i >= kMostAnswers) return i;
    }
    return records.size();
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
    std::uint64_t cut_ns = until_ns;
    for (Ring& ring : rings_) {
        ring.reader.release();
        if (!look(ring, until_ns)) return false;
        if (ring.records.size() == kMostRecords) {
            has_more_ = true;
            ring.taken = undisturbed(ring.records);
            cut_ns = std::min(cut_ns, ring.records[ring.taken - 1].header.time_ns);
        }
    }
    in_order_.clear();
    for (Ring& ring : rings_) {
        if (has_more_) {
            // Nothing that is younger than what is left behind.
            const auto end = ring.records.begin() + static_cast<std::ptrdiff_t>(ring.taken);
            const auto cut = std::find_if(ring.records.begin(), end, [&](const Record& record) {
                return record.header.time_ns > cut_ns;
            });
            const bool is_whole = ring.taken != 0 && ring.records[ring.taken - 1].header.time_ns == cut_ns;
            if (!is_whole) ring.taken = static_cast<std::size_t>(cut - ring.records.begin());
        }
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
