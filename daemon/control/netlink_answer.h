// Netlink messages to a program, by libnl.
#pragma once

#include <linux/netlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace urnic::daemon {

/// A nested attribute, until it goes.
class NetlinkNest {
  public:
    NetlinkNest(nl_msg* message, int type) : message_(message), nest_(nla_nest_start(message, type)) {}
    NetlinkNest(const NetlinkNest&) = delete;
    NetlinkNest& operator=(const NetlinkNest&) = delete;
    ~NetlinkNest() {
        if (nest_ != nullptr) {
            (void)nla_nest_end(message_, nest_);
        }
    }
    [[nodiscard]] bool is_open() const { return nest_ != nullptr; }
    /// Takes back all of it.
    void cancel() {
        if (nest_ != nullptr) {
            nla_nest_cancel(message_, nest_);
            nest_ = nullptr;
        }
    }

  private:
    nl_msg* message_;
    nlattr* nest_;
};

/// The answer to one request: messages one behind the other.
class NetlinkAnswer {
  public:
    struct Free {
        void operator()(nl_msg* message) const { nlmsg_free(message); }
    };
    using Message = std::unique_ptr<nl_msg, Free>;

    explicit NetlinkAnswer(const nlmsghdr& request) : request_(request) {}

    /// A message of the request's type; throws std::bad_alloc.
    [[nodiscard]] Message begin() const;
    void add(const Message& message);
    /// The end of a dump.
    void end_dump();
    /// What the kernel sends for NLM_F_ACK, and for an error (errno) in any case.
    void acknowledge(int error);

    [[nodiscard]] std::string take() { return std::move(bytes_); }
    [[nodiscard]] bool is_dump() const { return (request_.nlmsg_flags & NLM_F_DUMP) != 0; }
    [[nodiscard]] bool is_empty() const { return bytes_.empty(); }

  private:
    [[nodiscard]] Message make(int type, int flags) const;

    nlmsghdr request_;
    std::string bytes_;
};

}  // namespace urnic::daemon
