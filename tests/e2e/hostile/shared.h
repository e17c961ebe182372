// What a lying daemon does to the memory and the sockets that it shares with a program.
#pragma once

#include <cstdint>
#include <vector>

#include "abi/queues.h"
#include "os/mapping.h"
#include "tests/e2e/hostile/replies.h"

namespace urnic::e2e {

/// Everything shared over one connection, learned from its requests and true replies.
class Shared {
  public:
    explicit Shared(Random& random) : random_(random) {}
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared();

    /// The true reply to a request, before any lie. The event socket in it becomes one of ours.
    void learn(const Message& request, Message& reply);
    /// Some writes to rings and doorbells, and some events.
    void scribble();

  private:
    struct Region {
        std::byte* memory;
        std::size_t bytes;
        std::size_t begin;         // where the queue begins
        std::uint32_t cq_entries;  // 0: no CQ
    };
    struct Events {
        UniqueFd daemon;  // the real events
        UniqueFd program;
    };

    void map(const UniqueFd& fd, std::uint64_t offset, std::size_t bytes, std::uint32_t cq_entries);
    void learn_state(Message& reply);
    void learn_objects(abi::Op op, const Message& request, Message& reply);
    void take_event_socket(Message& reply);
    void forge_completion(const Region& cq);
    void relay_events();
    std::uint64_t element();

    Random& random_;
    std::uint32_t num_workers_ = 0;
    std::vector<Region> regions_;
    std::vector<Mapping> states_;
    std::vector<Events> events_;
    std::vector<UniqueFd> channels_;
    std::vector<std::uint64_t> elements_;
    std::vector<std::uint32_t> qp_nums_;
};

}  // namespace urnic::e2e
