// The device under test as a run reaches it: with an agent beside it, or by a librdmacm listener alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "conform/live/live_wire.h"

namespace urnic::conform {

struct Options;

class JudgedDevice {
  public:
    virtual ~JudgedDevice() = default;
    [[nodiscard]] virtual JudgedBench& bench() = 0;
    /// Proves that packets reach the device's transport and come back; what is known about the device, by
    /// name. Throws BenchFailed when nothing can be judged.
    [[nodiscard]] virtual std::map<std::string, std::string> prepare() = 0;
};

/// Throws SetupError when there is no agent. Everything has to outlive the device.
[[nodiscard]] std::unique_ptr<JudgedDevice> device_with_agent(const Options& options, WirePort& port,
                                                              const LivePath& path, std::uint32_t first_qp);
/// The listener of `options.cm_port`.
[[nodiscard]] std::unique_ptr<JudgedDevice> device_with_listener(const Options& options, WirePort& port,
                                                                 const LivePath& path,
                                                                 std::uint32_t first_qp);

/// Whoever connects to `options.cm_port` of the tester.
[[nodiscard]] std::unique_ptr<JudgedDevice> device_with_client(const Options& options, WirePort& port,
                                                               const LivePath& path, std::uint32_t first_qp);

}  // namespace urnic::conform
