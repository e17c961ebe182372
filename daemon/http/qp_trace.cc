#include "daemon/http/qp_trace.h"

#include <fmt/format.h>

#include <span>
#include <sstream>
#include <utility>

#include "observe/view/page.h"

namespace urnic::daemon {

namespace {

std::span<std::byte> bytes_of(const Memfd& memory) { return {memory.mapping.data(), memory.mapping.size()}; }

}  // namespace

QpTrace::QpTrace(const RunningTrace& running)
    : memory_(running.ring),
      ring_(bytes_of(*running.ring)),
      source_{running.qp.device,
              running.is_infiniband ? wire::LinkLayer::kInfiniBand : wire::LinkLayer::kEthernet},
      name_(fmt::format("{}/{:#x}", running.qp.device, running.qp.qpn)),
      rnic_(running.rnic),
      began_ns_(running.began_ns) {
    begin_anew();
}

void QpTrace::begin_anew() {
    before_ += events_ ? events_->events() : 0;
    log_ = std::make_unique<view::EventLog>();
    log_->expect(name_);
    output_ = std::make_unique<view::LogOutput>(*log_, began_ns_);
    events_.emplace(*output_, std::vector<trace::Target>{});
}

void QpTrace::read() {
    constexpr std::uint64_t kAnyTime = ~std::uint64_t{0};
    CaptureRingReader::Record record;
    ring_.look();
    while (ring_.next(kAnyTime, record) == CaptureRingReader::Found::kRecord) {
        // Behind a gap nothing is certain of what was on its way: what follows is another trace.
        if (record.header.lost_before != 0) {
            begin_anew();
        }
        trace::add_record(*events_, source_, record, record.header.time_ns);
        ring_.skip(record);
    }
    ring_.release();
    log_->keep_newest(kMostEvents);
}

std::string QpTrace::shortfall() const {
    std::string words;
    if (const std::uint64_t lost = ring_.counts(rnic_).lost; lost != 0) {
        words = fmt::format(
            "{} packets, WQEs and completions are lost, because they came faster than this page reads: what "
            "is shown begins behind a gap. ",
            lost);
    }
    if (events_->events() > log_->events()) {
        words += fmt::format("The newest {} events are shown.", log_->events());
    }
    return words;
}

std::string QpTrace::text(bool is_gone) const {
    std::ostringstream out;
    const std::uint64_t next = before_ + events_->events();
    out << fmt::format(R"({{"first":{},"next":{},"lost":{},"gone":{},"data":)", next - log_->events(), next,
                       ring_.counts(rnic_).lost, is_gone);
    view::write_data(out, *log_, name_, shortfall());
    out << '}';
    return std::move(out).str();
}

}  // namespace urnic::daemon
