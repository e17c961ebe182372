/// A port of an RDMA device, on stock libibverbs: what a link has from it before there is a QP.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <optional>
#include <string>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

struct PortSelection {
    std::string device;  ///< "": the first
    std::uint8_t port = 1;
    /// -1: the first of an InfiniBand port, the first link-local one of a RoCE port.
    int gid_index = -1;
    std::uint16_t pkey_index = 0;
};

class RdmaPort {
  public:
    /// Opens the device. Throws SetupError.
    explicit RdmaPort(const PortSelection& selection);

    [[nodiscard]] ibv_context* context() const { return context_.get(); }
    [[nodiscard]] const std::string& device_name() const { return device_name_; }
    [[nodiscard]] std::uint8_t number() const { return number_; }
    /// Device and number, for messages.
    [[nodiscard]] std::string text() const { return device_name_ + " port " + std::to_string(number_); }
    [[nodiscard]] bool is_infiniband() const { return is_infiniband_; }
    [[nodiscard]] const Gid& gid() const { return gid_; }
    [[nodiscard]] std::uint8_t gid_index() const { return gid_index_; }
    [[nodiscard]] std::uint16_t pkey() const { return pkey_; }
    /// Of the network interface below, which its GID names; 0: none.
    [[nodiscard]] unsigned interface_index() const { return interface_index_; }
    /// As it is now. Throws SetupError.
    [[nodiscard]] ibv_port_attr query() const;
    /// The same; none: the device was removed, perhaps.
    [[nodiscard]] std::optional<ibv_port_attr> try_query() const;
    /// Throws SetupError if the GID or the P_Key at its index is another one now.
    void check_unchanged() const;

  private:
    void open_device(const std::string& wanted);
    void find_gid(int wanted);
    [[nodiscard]] std::uint16_t query_pkey() const;
    [[nodiscard]] bool is_gid_of_link(const ibv_gid_entry& entry, bool is_wanted) const;

    std::unique_ptr<ibv_context, int (*)(ibv_context*)> context_{nullptr, ibv_close_device};
    std::string device_name_;
    std::uint8_t number_;
    bool is_infiniband_ = false;
    Gid gid_{};
    std::uint8_t gid_index_ = 0;
    std::uint16_t pkey_index_;
    std::uint16_t pkey_ = 0xFFFF;
    unsigned interface_index_ = 0;
};

}  // namespace urnic::ipoib
