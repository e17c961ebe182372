#include "tests/e2e/hostile/shared.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "os/memfd.h"

namespace urnic::e2e {

namespace {

constexpr std::size_t kPage = 4096;

template <class Body>
bool is(const Message& message, Body& body) {
    if (message.bytes.size() != sizeof body) {
        return false;
    }
    std::memcpy(static_cast<void*>(&body), message.bytes.data(), sizeof body);
    return true;
}

}  // namespace

Shared::~Shared() {
    for (const Region& region : regions_) {
        ::munmap(region.memory, region.bytes);
    }
}

void Shared::map(const UniqueFd& fd, std::uint64_t offset, std::size_t bytes, std::uint32_t cq_entries) {
    const std::uint64_t page = offset / kPage * kPage;
    const std::size_t begin = offset - page;
    void* memory = ::mmap(nullptr, begin + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(),
                          static_cast<off_t>(page));
    if (memory != MAP_FAILED) {
        regions_.push_back({static_cast<std::byte*>(memory), begin + bytes, begin, cq_entries});
    }
}

/// The real state cannot be written: the program gets a file of ours, of which it cannot tell.
void Shared::learn_state(Message& reply) {
    abi::HelloReply hello{};
    if (!is(reply, hello) || hello.header.error != 0 || reply.fds.size() < 2) {
        return;
    }
    num_workers_ = hello.num_workers;
    map(reply.fds[1], 0, abi::doorbell_bytes(num_workers_), 0);
    Memfd own;
    if (below(random_, 2) == 0 &&
        create_memfd("lies", sizeof(abi::DaemonState), Sharing::kReadOnlyForClients, own) == 0) {
        // Ours stays writable by the mapping that is older than the seal.
        const UniqueFd fd(::dup(own.fd.get()));
        void* memory =
            ::mmap(nullptr, sizeof(abi::DaemonState), PROT_READ, MAP_SHARED, reply.fds[0].get(), 0);
        if (memory != MAP_FAILED) {
            std::memcpy(own.mapping.data(), memory, sizeof(abi::DaemonState));
            ::munmap(memory, sizeof(abi::DaemonState));
        }
        reply.fds[0] = std::move(own.fd);
        states_.push_back(std::move(own.mapping));
    }
}

void Shared::take_event_socket(Message& reply) {
    int pair[2];
    if (reply.fds.empty() ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        return;
    }
    events_.push_back({std::move(reply.fds[0]), UniqueFd(pair[1])});
    reply.fds[0] = UniqueFd(pair[0]);
}

void Shared::learn_objects(abi::Op op, const Message& request, Message& reply) {
    abi::CreateCqRequest cq_request{};
    abi::CreateQpRequest qp_request{};
    abi::CreateSrqRequest srq_request{};
    abi::CreateCqReply cq{};
    abi::CreateQpReply qp{};
    abi::SrqReply srq{};
    if (reply.fds.empty()) {
        return;
    }
    if ((op == abi::Op::kCreateCq || op == abi::Op::kResizeCq) && is(reply, cq)) {
        map(reply.fds[0], cq.memory_offset, abi::cq_bytes(num_workers_, cq.entries), cq.entries);
        if (is(request, cq_request)) {
            elements_.push_back(cq_request.user_handle);
        }
    } else if (op == abi::Op::kCreateQp && is(reply, qp) && is(request, qp_request)) {
        map(reply.fds[0], qp.memory_offset, qp.memory_bytes, 0);
        elements_.push_back(qp_request.user_handle);
        qp_nums_.push_back(qp.qp_num);
    } else if (op == abi::Op::kCreateSrq && is(reply, srq) && is(request, srq_request)) {
        map(reply.fds[0], srq.memory_offset, srq.memory_bytes, 0);
        elements_.push_back(srq_request.user_handle);
    } else if (op == abi::Op::kCreateChannel && reply.fds.size() == 2) {
        channels_.emplace_back(::dup(reply.fds[1].get()));
    }
}

void Shared::learn(const Message& request, Message& reply) {
    abi::RequestHeader header{};
    std::memcpy(&header, request.bytes.data(), std::min(request.bytes.size(), sizeof header));
    if (header.op == abi::Op::kHello) {
        learn_state(reply);
    } else if (header.op == abi::Op::kOpenDevice) {
        take_event_socket(reply);
    } else {
        learn_objects(header.op, request, reply);
    }
}

std::uint64_t Shared::element() {
    if (elements_.empty() || below(random_, 4) == 0) {
        return below(random_, 2) == 0 ? random_() : below(random_, 64);
    }
    return elements_[below(random_, elements_.size())] + (below(random_, 8) == 0 ? 8 : 0);
}

/// The next one that the program looks for, of a QP of it as often as not.
void Shared::forge_completion(const Region& cq) {
    auto& header = *reinterpret_cast<abi::CqHeader*>(cq.memory + cq.begin);
    const auto worker = static_cast<std::uint32_t>(below(random_, num_workers_));
    std::uint32_t index = header.consumer[worker].index.load();
    for (std::uint64_t count = below(random_, 4); count != 0; --count, ++index) {
        auto* ring =
            reinterpret_cast<abi::Cqe*>(cq.memory + cq.begin + abi::cq_ring_offset(worker, cq.cq_entries));
        abi::Cqe& cqe = ring[index % cq.cq_entries];
        for (std::size_t at = sizeof cqe.seq; at < sizeof cqe; ++at) {
            reinterpret_cast<std::byte*>(&cqe)[at] = static_cast<std::byte>(random_());
        }
        cqe.qp_num = qp_nums_.empty() || below(random_, 4) == 0
                         ? static_cast<std::uint32_t>(random_() % (1U << 26U))
                         : qp_nums_[below(random_, qp_nums_.size())];
        cqe.srq_number = below(random_, 4) == 0 ? cqe.srq_number : 0;
        cqe.is_recv = static_cast<std::uint8_t>(below(random_, 2));
        cqe.wqe_index =
            below(random_, 2) == 0 ? cqe.wqe_index : static_cast<std::uint32_t>(below(random_, 16));
        cqe.seq.store(index + 1, std::memory_order_release);
    }
}

void Shared::relay_events() {
    for (const Events& events : events_) {
        abi::AsyncEvent event{};
        if (::recv(events.daemon.get(), &event, sizeof event, MSG_DONTWAIT) == sizeof event) {
            (void)!::send(events.program.get(), &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        if (below(random_, 8) == 0) {
            event = {element(),
                     static_cast<std::uint32_t>(below(random_, 8) == 0 ? random_() : below(random_, 24)), 0};
            const std::size_t bytes = below(random_, 8) == 0 ? below(random_, sizeof event) : sizeof event;
            (void)!::send(events.program.get(), &event, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    }
    for (const UniqueFd& channel : channels_) {
        if (below(random_, 8) == 0) {
            const std::uint64_t message = element();
            const std::size_t bytes =
                below(random_, 8) == 0 ? below(random_, sizeof message) : sizeof message;
            (void)!::send(channel.get(), &message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    }
}

void Shared::scribble() {
    relay_events();
    for (const Mapping& state : states_) {
        auto* words = reinterpret_cast<std::atomic<std::uint32_t>*>(state.data());
        words[below(random_, sizeof(abi::DaemonState) / sizeof *words)].store(
            static_cast<std::uint32_t>(random_() % 3));
    }
    for (const Region& region : regions_) {
        if (region.cq_entries != 0 && below(random_, 2) == 0) {
            forge_completion(region);
            continue;
        }
        for (int i = 0; i < 16; ++i) {
            const std::size_t words = (region.bytes - region.begin) / sizeof(std::uint64_t);
            auto* at = reinterpret_cast<std::atomic<std::uint64_t>*>(region.memory + region.begin) +
                       below(random_, words);
            at->store(random_(), std::memory_order_relaxed);
        }
    }
}

}  // namespace urnic::e2e
