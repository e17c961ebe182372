// The C interface: clients, memory, errors.
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "ulp/rpcrdma/include/urnic/rpcrdma.h"
#include "ulp/rpcrdma/verbs/arguments.h"
#include "ulp/rpcrdma/verbs/client.h"
#include "ulp/rpcrdma/verbs/error.h"
#include "ulp/rpcrdma/verbs/options.h"
#include "ulp/rpcrdma/verbs/pool.h"
#include "ulp/rpcrdma/verbs/request.h"

struct rpcrdma_client {
    std::shared_ptr<urnic::rpcrdma::Client> client;
};

namespace urnic::rpcrdma {
namespace {

/// close() waits for those who are inside.
class Visit {
  public:
    explicit Visit(Client& client) : client_(client) { client_.enter(); }
    ~Visit() { client_.leave(); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

  private:
    Client& client_;
};

}  // namespace

int copy_address(const sockaddr* from, sockaddr_storage& to) {
    to = {};
    if (from != nullptr && from->sa_family == AF_INET) {
        std::memcpy(&to, from, sizeof(sockaddr_in));
    } else if (from != nullptr && from->sa_family == AF_INET6) {
        std::memcpy(&to, from, sizeof(sockaddr_in6));
    } else {
        return fail(EINVAL, "an address is of AF_INET or AF_INET6");
    }
    return 0;
}

int copy_statistics(const rpcrdma_statistics& from, rpcrdma_statistics* to) {
    if (to == nullptr || to->size < sizeof(to->size)) {
        return fail(EINVAL, "statistics.size is to be set to sizeof(struct rpcrdma_statistics)");
    }
    const std::size_t size = to->size;
    std::memset(to, 0, size);
    std::memcpy(to, &from, std::min(size, sizeof(from)));
    to->size = size;
    return 0;
}

}  // namespace urnic::rpcrdma

using urnic::rpcrdma::Client;
using urnic::rpcrdma::PendingCall;

const char* rpcrdma_last_error(void) { return urnic::rpcrdma::last_error(); }

void* rpcrdma_alloc(size_t octets) { return urnic::rpcrdma::Pool::instance().allocate(octets).data(); }

void rpcrdma_free(void* memory) { urnic::rpcrdma::Pool::instance().free(memory); }

int rpcrdma_connect(const sockaddr* server, const rpcrdma_options* options, rpcrdma_client** client) {
    rpcrdma_options checked;
    sockaddr_storage address;
    int error = urnic::rpcrdma::copy_address(server, address);
    if (error == 0) error = urnic::rpcrdma::check_options(options, checked);
    std::shared_ptr<Client> made;
    if (error == 0) error = Client::connect(address, checked, made);
    if (error == 0) *client = new rpcrdma_client{std::move(made)};
    return error;
}

void rpcrdma_disconnect(rpcrdma_client* client) {
    if (client == nullptr) return;
    client->client->close();
    delete client;
}

int rpcrdma_call(rpcrdma_client* client, const struct rpcrdma_call* call, rpcrdma_reply* reply) {
    const urnic::rpcrdma::Visit visit(*client->client);
    PendingCall pending;
    *reply = {};
    const int error = pending.set(*call, urnic::rpcrdma::now_ns());
    if (error != 0) return error;
    client->client->call(pending);
    urnic::rpcrdma::fill_reply(pending, *reply);
    return urnic::rpcrdma::error_of(pending);
}

int rpcrdma_submit(rpcrdma_client* client, const struct rpcrdma_call* call, rpcrdma_done done,
                   void* context) {
    if (done == nullptr)
        return urnic::rpcrdma::fail(EINVAL, "rpcrdma_submit() has to have a function to call");
    const urnic::rpcrdma::Visit visit(*client->client);
    auto pending = std::make_unique<PendingCall>();
    const int error = pending->set(*call, urnic::rpcrdma::now_ns());
    if (error != 0) return error;
    pending->done = done;
    pending->context = context;
    client->client->submit(*pending.release());
    return 0;
}

void rpcrdma_reply_release(rpcrdma_reply* reply) {
    urnic::rpcrdma::Pool::instance().free(std::exchange(reply->held, nullptr));
    reply->stream = nullptr;
}

void rpcrdma_client_handler(rpcrdma_client* client, rpcrdma_handler handler, void* context) {
    client->client->set_handler({handler, context});
}

int rpcrdma_client_statistics(rpcrdma_client* client, rpcrdma_statistics* statistics) {
    rpcrdma_statistics all{};
    client->client->statistics(all);
    return urnic::rpcrdma::copy_statistics(all, statistics);
}

int rpcrdma_request_receive_size(rpcrdma_client* client, uint32_t octets) {
    if (client->client->request_receive_size(octets)) return 0;
    return urnic::rpcrdma::fail(
        EAGAIN, "receive sizes are asked for in version 2, once it is settled, one at a time");
}

int rpcrdma_grow_receives(rpcrdma_client* client, uint32_t octets) {
    if (client->client->grow_receives(octets)) return 0;
    return urnic::rpcrdma::fail(
        EAGAIN, "receives grow in version 2, once it is settled, one change at a time; larger than they are");
}
