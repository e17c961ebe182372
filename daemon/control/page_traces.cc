#include "daemon/control/page_traces.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "abi/capture.h"
#include "daemon/config/config.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

namespace {

/// Of one QP: some thousand packets between two looks.
constexpr std::size_t kPageRingBytes = abi::kCaptureRingHeaderBytes + (std::size_t{1} << 20U);
/// That all headers fit in; of a short packet some payload, which the page has no use for.
constexpr std::uint32_t kPageSnapBytes = 128;

static_assert(kMaxHttpTraces == dataplane::kMaxPageCaptures);

}  // namespace

bool PageTraces::exists(const TracedQp& qp) const {
    const RnicState* const rnic = control_.find_device(qp.device);
    return rnic != nullptr && rnic->qp_numbers.is_used(qp.qpn);
}

PageTraces::Active PageTraces::begin(const TracedQp& qp) {
    Active active;
    active.trace.qp = qp;
    const RnicState* const rnic = control_.find_device(qp.device);
    if (rnic == nullptr || !rnic->qp_numbers.is_used(qp.qpn)) {
        active.trace.problem = fmt::format("there is no QP {:#x} of an RNIC \"{}\"", qp.qpn, qp.device);
        return active;
    }
    if (control_.captures.is_full(ActiveCaptures::For::kPage)) {
        active.trace.problem = "as many QPs are traced as can be: close the page of another";
        return active;
    }
    auto memory = std::make_shared<Memfd>();
    if (const int error = create_memfd("urnic-page", kPageRingBytes, Sharing::kWritable, *memory);
        error != 0) {
        active.trace.problem = fmt::format("no memory for a trace: {}", std::strerror(error));
        return active;
    }
    // A worker is not to wait for its pages.
    (void)::madvise(memory->mapping.data(), memory->mapping.size(), MADV_POPULATE_WRITE);
    auto capture = std::make_unique<ActiveCaptures::Capture>();
    capture->reader = ActiveCaptures::For::kPage;
    capture->page_memory = memory;
    dataplane::PacketCapture& packets = capture->packets;
    packets.rnics = std::uint64_t{1} << rnic->device->index;
    packets.snap_bytes = kPageSnapBytes;
    packets.filters = abi::kFilterOwnQp;
    packets.has_completions = true;
    packets.qpn = qp.qpn;
    // A number tells the worker.
    packets.rings[qp.qpn % control_.num_workers()] =
        dataplane::CaptureRingWriter({memory->mapping.data(), memory->mapping.size()});
    active.trace.rnic = static_cast<std::uint16_t>(rnic->device->index);
    active.trace.is_infiniband = rnic->device->is_infiniband();
    active.trace.ring = std::move(memory);
    active.trace.began_ns = clock_now();
    active.capture = control_.captures.add(control_, std::move(capture));
    return active;
}

void PageTraces::end_capture(Active& active) {
    if (const std::uint32_t id = std::exchange(active.capture, 0); id != 0) {
        control_.captures.remove(control_, id);
    }
}

std::shared_ptr<const RunningTraces> PageTraces::update(const WantedTraces& wanted) {
    for (Active& active : active_) {
        if (std::find(wanted.begin(), wanted.end(), active.trace.qp) == wanted.end()) {
            end_capture(active);
        } else if (active.capture != 0 && !exists(active.trace.qp)) {
            active.trace.is_gone = true;
            end_capture(active);
        }
    }
    // What is not traced is tried again.
    std::erase_if(active_, [](const Active& active) { return active.capture == 0 && !active.trace.is_gone; });
    std::erase_if(active_, [&](const Active& active) {
        return std::find(wanted.begin(), wanted.end(), active.trace.qp) == wanted.end();
    });
    auto running = std::make_shared<RunningTraces>();
    for (const TracedQp& qp : wanted) {
        auto found = std::find_if(active_.begin(), active_.end(),
                                  [&](const Active& active) { return active.trace.qp == qp; });
        if (found == active_.end()) {
            active_.push_back(begin(qp));
            found = active_.end() - 1;
        }
        running->push_back(found->trace);
    }
    return running;
}

}  // namespace urnic::daemon
