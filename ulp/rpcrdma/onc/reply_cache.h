/// Replies that did not fit into the room of their Calls. The client may send the Call once again with the
/// same XID and more room (draft, 7.2.4); the procedure is not to be executed a second time then.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include "ulp/rpcrdma/include/urnic/rpcrdma.h"

namespace urnic::rpcrdma::onc {

/// The message of a Reply in memory of its own.
struct StoredReply {
    std::vector<std::byte> stream;
    std::vector<std::byte> data;  // of all items, one behind the other
    std::vector<rpcrdma_item> items;
};

/// What makes a Call the same as an earlier one: the connection, its XID, its octets up to the first
/// arguments.
struct CallIdentity {
    rpcrdma_connection* connection = nullptr;
    std::vector<std::byte> head;
    std::size_t octets = 0;
    [[nodiscard]] bool operator==(const CallIdentity&) const = default;
};

class ReplyCache {
  public:
    ReplyCache() = default;
    ~ReplyCache() { clear(); }
    ReplyCache(const ReplyCache&) = delete;
    ReplyCache& operator=(const ReplyCache&) = delete;

    /// One Reply on its way. The client may have the error, and its Call be here again, before the thread
    /// that sends the Reply knows: that Call waits for finish().
    class Pending;
    /// A Reply of `request` is sent next.
    [[nodiscard]] Pending begin(const rpcrdma_request* request);
    /// Takes the Reply of an earlier Call of this identity out. Returns false if there is none.
    [[nodiscard]] bool take(const rpcrdma_request* request, StoredReply& reply);
    void clear();

  private:
    struct Entry {
        CallIdentity identity;
        bool is_pending = true;
        StoredReply reply;
        std::size_t octets = 0;
    };
    using Entries = std::list<Entry>;
    void erase(Entries::iterator entry);
    void make_room(std::size_t octets);
    [[nodiscard]] Entries::iterator find(const rpcrdma_request* request);

    std::mutex mutex_;
    std::condition_variable finished_;
    Entries entries_;  // oldest first
    std::size_t octets_ = 0;

  public:
    class Pending {
      public:
        Pending(ReplyCache& cache, Entries::iterator entry) : cache_(cache), entry_(entry) {}
        Pending(const Pending&) = delete;
        Pending& operator=(const Pending&) = delete;
        /// Nothing is kept.
        ~Pending();
        /// It did not fit: keeps a copy in place of the oldest ones, unless it is too large for that.
        void keep(const rpcrdma_message& message);

      private:
        ReplyCache& cache_;
        Entries::iterator entry_;
        bool is_kept_ = false;
    };
};

}  // namespace urnic::rpcrdma::onc
