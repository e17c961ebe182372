/// A device as all connections on it share it: its PD, and what it can.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

namespace urnic::rpcrdma {

class Device {
  public:
    /// That of an open device; null with errno. The device stays open while somebody has this: librdmacm
    /// keeps it open for its ids alone, so end this before the id.
    [[nodiscard]] static std::shared_ptr<Device> of(ibv_context* context);

    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    [[nodiscard]] ibv_context* context() const { return context_; }
    [[nodiscard]] ibv_pd* pd() const { return pd_; }
    [[nodiscard]] std::size_t pool_place() const { return pool_place_; }
    /// Returns whether type 2 windows can be bound by WQEs.
    [[nodiscard]] bool has_windows() const { return has_windows_; }
    /// Returns whether it sends and takes SEND with Invalidate.
    [[nodiscard]] bool has_invalidation() const { return has_invalidation_; }
    /// The key that the SEND of a receive's completion invalidated; 0: none.
    [[nodiscard]] std::uint32_t invalidated_key(const ibv_wc& completion) const {
        return (completion.wc_flags & invalidation_flags_) != 0 ? completion.invalidated_rkey : 0;
    }
    [[nodiscard]] const ibv_device_attr& attributes() const { return attributes_; }

  private:
    Device(ibv_context* context, ibv_pd* pd, const ibv_device_attr& attributes, std::size_t pool_place);

    ibv_context* context_;
    ibv_pd* pd_;
    ibv_device_attr attributes_;
    std::size_t pool_place_;
    bool has_windows_;
    bool has_invalidation_;
    unsigned invalidation_flags_;
};

}  // namespace urnic::rpcrdma
