#include "tests/suites/torture/churn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace urnic::torture {

void Pool::expect(int result, bool must_be_busy, const char* what) {
    if (result == (must_be_busy ? EBUSY : 0)) {
        shared_.count(must_be_busy ? std::string(what) + " in use" : what);
        return;
    }
    errno = result;
    fail("%s returned %d%s", what, result, must_be_busy ? ", it is in use" : "");
}

const std::vector<Pool::Row>& Pool::rows() {
    static const std::vector<Row> table{
        {&Pool::create_pd, 3},      {&Pool::destroy_pd, 3},      {&Pool::create_mr, 8},
        {&Pool::create_dm, 2},      {&Pool::rereg_mr, 2},        {&Pool::destroy_mr, 8},
        {&Pool::create_channel, 2}, {&Pool::destroy_channel, 2}, {&Pool::create_cq, 4},
        {&Pool::resize_cq, 3},      {&Pool::arm_cq, 4},          {&Pool::destroy_cq, 3},
        {&Pool::create_srq, 3},     {&Pool::change_srq, 3},      {&Pool::destroy_srq, 3},
        {&Pool::create_qp, 6},      {&Pool::move_qp, 12},        {&Pool::use_qp, 12},
        {&Pool::attach_qp, 2},      {&Pool::destroy_qp, 5},      {&Pool::create_ah, 4},
        {&Pool::destroy_ah, 4},     {&Pool::create_mw, 2},       {&Pool::destroy_mw, 2},
        {&Pool::create_xrcd, 1},    {&Pool::destroy_xrcd, 1},    {&Pool::query, 2},
        {&Pool::fork_child, 1}};
    return table;
}

void Pool::step() {
    unsigned sum = 0;
    for (const Row& row : rows()) sum += row.weight;
    std::uint32_t drawn = random_.below(sum);
    for (const Row& row : rows()) {
        if (drawn < row.weight) return (this->*row.action)();
        drawn -= row.weight;
    }
}

void Pool::query() {
    ibv_device_attr_ex device{};
    ibv_port_attr port{};
    if (ibv_query_device_ex(context_, nullptr, &device) != 0) fail("query_device_ex");
    if (ibv_query_port(context_, kPort, &port) != 0 || port.state != IBV_PORT_ACTIVE) fail("query_port");
    for (const Queue& queue : qps_) {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        if (ibv_query_qp(queue.qp, &attr, IBV_QP_STATE, &init) != 0) fail("query_qp");
        // It may have failed by itself since, and nothing else.
        const bool failed = attr.qp_state == IBV_QPS_ERR || attr.qp_state == IBV_QPS_SQE;
        if (attr.qp_state != queue.state && !failed) {
            fail("query_qp: state %d, was taken to %d", static_cast<int>(attr.qp_state),
                 static_cast<int>(queue.state));
        }
    }
    shared_.count("query");
}

void Pool::fork_child() {
    if (!random_.one_in(20)) return;
    const pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) _exit(0);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("a forked child ended with status %d", status);
    shared_.count("fork");
}

void Pool::clear() {
    for (Queue& queue : qps_) release(queue);
    for (const Window& window : mws_) expect(ibv_dealloc_mw(window.mw), false, "dealloc_mw");
    for (ibv_srq* srq : srqs_) expect(ibv_destroy_srq(srq), false, "destroy_srq");
    for (ibv_xrcd* xrcd : xrcds_) expect(ibv_close_xrcd(xrcd), false, "close_xrcd");
    for (const CompletionQueue& queue : cqs_) expect(ibv_destroy_cq(queue.cq), false, "destroy_cq");
    for (ibv_comp_channel* channel : channels_)
        expect(ibv_destroy_comp_channel(channel), false, "destroy_comp_channel");
    for (ibv_ah* ah : ahs_) expect(ibv_destroy_ah(ah), false, "destroy_ah");
    for (Region& region : mrs_) release(region);
    for (ibv_pd* pd : pds_) expect(ibv_dealloc_pd(pd), false, "dealloc_pd");
    qps_.clear();
    mws_.clear();
    srqs_.clear();
    xrcds_.clear();
    cqs_.clear();
    channels_.clear();
    ahs_.clear();
    mrs_.clear();
    pds_.clear();
}

void churn(Shared& shared, unsigned thread) {
    Random random(shared.seed() * 1000 + 500 + thread);
    while (!shared.over()) {
        const unsigned device = random.below(2);
        const bool own = random.one_in(3);
        ibv_context* context = own ? open_device(device) : shared.contexts()[device];
        {
            Pool pool(shared, random, context, shared.gids()[random.below(2)]);
            for (std::uint32_t steps = random.between(10, 2000); steps > 0 && !shared.over(); --steps)
                pool.step();
        }
        if (own && ibv_close_device(context) != 0) fail("close_device");
        shared.count("pool");
    }
}

void take_events(Shared& shared) {
    Random random(shared.seed() * 1000 + 999);
    // An event that was there may be gone with its object when it is asked for.
    for (const ibv_context* context : shared.contexts()) {
        fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
    }
    while (!shared.over()) {
        std::array<pollfd, 2> waiting{
            {{shared.contexts()[0]->async_fd, POLLIN, 0}, {shared.contexts()[1]->async_fd, POLLIN, 0}}};
        if (poll(waiting.data(), waiting.size(), 50) <= 0) continue;
        for (std::size_t i = 0; i < waiting.size(); ++i) {
            ibv_async_event event{};
            if ((waiting[i].revents & POLLIN) == 0) continue;
            if (ibv_get_async_event(shared.contexts()[i], &event) != 0) continue;
            if (event.event_type == IBV_EVENT_DEVICE_FATAL) fail("the daemon is gone");
            // The object cannot go before this; its destroyer waits.
            if (random.one_in(4)) usleep(random.below(3000));
            ibv_ack_async_event(&event);
            shared.count(std::string("event: ") + ibv_event_type_str(event.event_type));
        }
    }
}

}  // namespace urnic::torture
