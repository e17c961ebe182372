#include "daemon/control/congestion_request.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <unordered_set>

#include "base/json_writer.h"
#include "congestion/setting_names.h"
#include "daemon/control/qp_snapshot.h"

namespace urnic::daemon {

namespace {

template <std::size_t N>
std::string text_in(const char (&field)[N]) {
    return {std::begin(field), std::find(std::begin(field), std::end(field), '\0')};
}

/// The QPs of a device that have rates, each once though several clients may have it open.
QpSnapshots qps_with_rates(const std::vector<const ClientState*>& clients, const dataplane::Device& device) {
    QpSnapshots qps = list_qps(clients);
    std::unordered_set<const dataplane::QpSlot*> seen;
    std::erase_if(qps, [&](const QpSnapshot& qp) {
        return qp.slot->device != &device || qp.slot->qp->config().congestion == nullptr ||
               !seen.insert(qp.slot).second;
    });
    return qps;
}

std::string mbps(BitsPerSecond rate) { return fmt::format("{:.3f}", static_cast<double>(rate) / 1e6); }

void write_settings(JsonWriter& json, const congestion::Settings& settings) {
    for (const congestion::ShownSetting& setting : congestion::shown(settings)) {
        if (setting.is_word) {
            json.value(setting.name, setting.text);
        } else {
            json.raw(setting.name, setting.text);
        }
    }
}

void write_qp(JsonWriter& json, const QpSnapshot& qp) {
    json.object({}, [&] {
        const bool is_dcqcn = qp.settings->rate.algorithm == congestion::Algorithm::kDcqcn;
        json.value("qpn", qp.slot->qp->qp_num());
        json.value("peer_qpn", qp.attr.dest_qp_num);
        json.value("worker", qp.worker);
        json.raw("rate_mbps", mbps(qp.rate));
        json.raw("target_mbps", mbps(is_dcqcn ? qp.target : qp.rate));
        json.raw("alpha", fmt::format("{:.6f}",
                                      is_dcqcn ? static_cast<double>(qp.alpha.raw()) / Fraction::kOne : 0.0));
        json.value("cnps", qp.cnps);
        if (qp.settings != &qp.slot->device->congestion[qp.worker]) {
            json.object("own_settings", [&] { write_settings(json, *qp.settings); });
        }
    });
}

/// What all QPs that have rates send at, RNIC by RNIC.
class Rates final : public LongAnswer {
  public:
    Rates(const ControlState& control, UniqueFd file) : control_(control), file_(std::move(file)) {}

    [[nodiscard]] int step(const ClientFrom& client_from, Reply& reply) override {
        if (device_ == nullptr && !begin_device()) {
            const std::string text = json_.take();
            if (::pwrite(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
                return errno;
            }
            reply.set(abi::CongestionReply{});
            reply.give(std::move(file_));
            return 0;
        }
        QpSnapshots qps;
        const bool has_more = list_some_qps(client_from, kObjectsPerStep, at_, qps);
        std::erase_if(qps, [&](const QpSnapshot& qp) {
            return qp.slot->device != device_ || qp.slot->qp->config().congestion == nullptr ||
                   !seen_.insert(qp.slot->qp->qp_num()).second;
        });
        query_qps(control_, qps);
        for (const QpSnapshot& qp : qps) {
            write_qp(json_, qp);
        }
        if (!has_more) {
            json_.end_array();
            json_.end_object();
            device_ = nullptr;
        }
        return kUnfinished;
    }

  private:
    /// The next one. Returns false behind the last.
    bool begin_device() {
        if (num_begun_ == 0) {
            json_.begin_object({});
            json_.begin_array("devices");
        }
        if (num_begun_ == control_.devices.size()) {
            json_.end_array();
            json_.end_object();
            return false;
        }
        device_ = control_.devices[num_begun_++]->device;
        at_ = {};
        seen_.clear();
        json_.begin_object({});
        json_.value("name", device_->name);
        write_settings(json_, device_->congestion[0]);
        json_.begin_array("qps");
        return true;
    }

    const ControlState& control_;
    UniqueFd file_;
    JsonWriter json_;
    std::size_t num_begun_ = 0;                  // RNICs
    const dataplane::Device* device_ = nullptr;  // nullptr: between two
    ObjectPosition at_;
    std::unordered_set<std::uint32_t> seen_;  // an XRC target is there for each client that has it open
};

/// QPs without settings of their own follow their device.
void set_device(const ControlState& control, const QpSnapshots& qps, dataplane::Device& device,
                const congestion::Settings& settings) {
    for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
        dataplane::Worker& worker = *control.workers[w];
        worker.call([&] {
            device.congestion[w] = settings;
            for (const QpSnapshot& qp : qps) {
                if (qp.worker == w && qp.slot->own_congestion == nullptr) {
                    worker.use_congestion(*qp.slot, device.congestion[w]);
                }
            }
        });
    }
}

void set_qp(const ControlState& control, dataplane::QpSlot& slot, std::uint32_t w,
            const congestion::Settings& settings) {
    auto own = std::make_unique<congestion::Settings>(settings);
    dataplane::Worker& worker = *control.workers[w];
    worker.call([&] {
        slot.own_congestion.swap(own);  // what it had before goes with `own`, on this thread
        worker.use_congestion(slot, *slot.own_congestion);
    });
}

abi::CongestionReply words_of(const std::string& text) {
    abi::CongestionReply reply{};
    std::memcpy(reply.message, text.data(), std::min(text.size(), sizeof reply.message - 1));
    return reply;
}

int set(ControlState& control, const std::vector<const ClientState*>& clients,
        const abi::CongestionRequest& request, Reply& reply) {
    const std::string name = text_in(request.device);
    const RnicState* const entry = control.find_device(name);
    if (entry == nullptr) {
        std::string names;
        for (const auto& device : control.devices) {
            names += (names.empty() ? "" : ", ") + device->device->name;
        }
        return reply.refuse<abi::CongestionReply>(
            ENODEV, fmt::format("there is no RNIC \"{}\"; there are {}", name, names));
    }
    dataplane::Device& device = *entry->device;
    if (device.is_infiniband()) {
        return reply.refuse<abi::CongestionReply>(
            EINVAL, fmt::format("{} has no congestion control: its link layer is InfiniBand", name));
    }
    std::vector<congestion::NamedValue> values;
    const std::string text = text_in(request.values);
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin);
        const std::size_t equals = line.find('=');
        if (equals == std::string::npos || equals == 0) {
            return reply.refuse<abi::CongestionReply>(
                EINVAL, fmt::format("\"{}\" must be NAME=VALUE, for example algorithm=dcqcn", line));
        }
        values.emplace_back(line.substr(0, equals), line.substr(equals + 1));
        begin = end + 1;
    }
    const QpSnapshots qps = qps_with_rates(clients, device);
    const auto qp = std::find_if(qps.begin(), qps.end(), [&](const QpSnapshot& view) {
        return view.slot->qp->qp_num() == request.qpn;
    });
    if (request.qpn != 0 && qp == qps.end()) {
        return reply.refuse<abi::CongestionReply>(
            ENOENT,
            fmt::format("{} has no RC, UC or XRC QP {}: urnic cc show lists them", name, request.qpn));
    }
    const bool has_own = request.qpn != 0 && qp->slot->own_congestion != nullptr;
    congestion::Settings settings = has_own ? *qp->slot->own_congestion : device.congestion[0];
    if (const auto problem = congestion::apply_named(values, settings)) {
        return reply.refuse<abi::CongestionReply>(EINVAL, problem->text);
    }
    if (request.qpn == 0) {
        set_device(control, qps, device, settings);
    } else {
        set_qp(control, *qp->slot, qp->worker, settings);
    }
    reply.set(words_of(congestion::former_names_in(values)));
    return 0;
}

}  // namespace

int answer_congestion_request(ControlState& control, const std::vector<const ClientState*>& clients,
                              User& user, const Request& request, Reply& reply) {
    if (request.length != sizeof(abi::CongestionRequest) || !request.fds.empty()) {
        return EINVAL;
    }
    const auto message = request.as<abi::CongestionRequest>();
    reply.set(abi::CongestionReply{});
    if (message.action != abi::CongestionAction::kSet) {
        return EINVAL;
    }
    // Whoever changes rates changes them for all users of the RNIC.
    if (!user.is_privileged()) {
        user.refuse("to change rates: that is for root and the daemon's own user");
        return EPERM;
    }
    return set(control, clients, message, reply);
}

bool is_about_rates(const Request& request) {
    return request.length == sizeof(abi::CongestionRequest) && request.fds.empty() &&
           request.as<abi::CongestionRequest>().action == abi::CongestionAction::kShow;
}

int begin_rates_answer(const ControlState& control, std::unique_ptr<LongAnswer>& answer) {
    UniqueFd file(::memfd_create("urnic-congestion", MFD_CLOEXEC));
    if (!file) {
        return errno;
    }
    answer = std::make_unique<Rates>(control, std::move(file));
    return 0;
}

}  // namespace urnic::daemon
