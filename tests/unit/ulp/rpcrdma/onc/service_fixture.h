/// The file service behind svc_rdma_create() and a CLIENT of clnt_rdma_create(), over the loop-back of one
/// process.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>

#include "tests/support/file_service/service.h"
#include "tests/unit/ulp/rpcrdma/onc/loopback.h"
#include "ulp/rpcrdma/onc/libtirpc.h"

namespace urnic::rpcrdma::onc {

constexpr std::uint32_t kLeastOctets = 64;
constexpr std::uint32_t kMostOctets = 4096;

class ServiceTest : public testing::Test {
  protected:
    ServiceTest() {
        static const int added = [] {
            const auto items = file_service::ddp_items(kLeastOctets, kMostOctets, false);
            return rpcrdma_onc_ddp(items.data(), items.size());
        }();
        EXPECT_EQ(added, 0);
        loopback::set({});
        transport = svc_rdma_create("127.0.0.1", "0", nullptr);
        EXPECT_NE(transport, nullptr);
        // Not svc_reg(): svc_unreg(), which frees what that allocates, talks to rpcbind.
        EXPECT_TRUE(svc_register(transport, FILE_SERVICE, FILE_SERVICE_V1, file_service_1, 0));
        client = connect();
        EXPECT_NE(client, nullptr);
    }
    ~ServiceTest() override {
        clnt_destroy(client);
        stop();
        SVC_DESTROY(transport);
        svc_unregister(FILE_SERVICE, FILE_SERVICE_V1);
    }

    /// As users do: svc_rdma_run() with threads.
    void run(unsigned threads) {
        server = std::thread([this, threads] { EXPECT_EQ(svc_rdma_run(transport, threads), 0); });
    }
    void stop() {
        if (server.joinable()) {
            svc_rdma_exit(transport);
            server.join();
        }
    }
    [[nodiscard]] CLIENT* connect(rpcprog_t program = FILE_SERVICE,
                                  rpcvers_t version = FILE_SERVICE_V1) const {
        return clnt_rdma_create("127.0.0.1", std::to_string(transport->xp_port).c_str(), program, version,
                                nullptr);
    }
    /// An echo of `octets`; returns its status, and whether what came back is the same.
    static clnt_stat echo(CLIENT* through, std::uint32_t octets, std::uint64_t seed = 1) {
        std::string data(octets, ' ');
        file_service::fill_pattern(seed, 0, data.data(), octets);
        payload arguments{.payload_len = octets, .payload_val = data.data()};
        payload result{};
        const clnt_stat status = file_echo_1(&arguments, &result, through);
        if (status == RPC_SUCCESS) {
            EXPECT_EQ(std::string(result.payload_val, result.payload_len), data);
        }
        clnt_freeres(through, reinterpret_cast<xdrproc_t>(xdr_payload), &result);
        return status;
    }
    static u_int executed(CLIENT* through) {
        u_int none = 0;
        u_int count = 0;
        EXPECT_EQ(file_count_1(&none, &count, through), RPC_SUCCESS);
        return count;
    }

    SVCXPRT* transport = nullptr;
    CLIENT* client = nullptr;
    std::thread server;
};

}  // namespace urnic::rpcrdma::onc
