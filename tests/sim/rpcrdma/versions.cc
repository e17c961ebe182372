// Version negotiation (draft, section 8) and what both versions have in common.
#include "tests/sim/rpcrdma/rpc_script.h"

namespace urnic::rpcrdma::sim {
namespace {

constexpr std::uint32_t kOnly1 = 1U << kVersion1;
constexpr std::uint32_t kOnly2 = 1U << kVersion2;

RPC_SCRIPT(RpcVersions, FirstCallIsTheProbe, "draft 8",
           "one message of at most 1024 octets, nothing else outstanding until it is answered") {
    client();
    call({.xid = 7});
    call({.xid = 8});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40"});
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40");
    does({"send 0 2 40 6 / 2 / 1 4 1000 / 2 4 2 / 1 2", "complete 1 replied 40",
          "send 8 2 40 0 / 0 0 / 0 0 0 / call:40"});
    EXPECT_EQ(connection().version(), kVersion2);
}

RPC_SCRIPT(RpcVersions, FirstCallOf1024IsInline, "draft 8",
           "the first message has at most 1024 octets: 988 behind the header are inline") {
    client();
    call({.octets = 988});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:988"});
}

RPC_SCRIPT(RpcVersions, FirstCallBeyond1024, "draft 8",
           "a first Call that is longer goes by a Position-Zero Read chunk") {
    client();
    call({.octets = 992});
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 3e0 0 1000 0 / 0 0"});
}

RPC_SCRIPT(RpcVersions, ServerOfVersion1, "draft 8.1",
           "ERR_VERS with 1: the Call is sent again in version 1, and what follows") {
    client();
    call({.xid = 7});
    call({.xid = 8});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40"});
    peer("7 2 10 4 1 1 1");
    does({"send 7 1 40 0 / 0 0 0 / call:40"});
    peer("7 1 10 0 / 0 0 0 / reply:40");
    does({"complete 1 replied 40", "send 8 1 40 0 / 0 0 0 / call:40"});
    EXPECT_EQ(connection().version(), kVersion1);
}

RPC_SCRIPT(RpcVersions, RefusedCallWithChunks, "draft 8.1",
           "memory of the refused message is withdrawn before it is offered again") {
    client();
    call({.octets = 2000});
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 7d0 0 1000 0 / 0 0"});
    peer("7 2 10 4 1 1 1");
    does({"withdraw a101", "send 7 1 40 1 / 1 0 a102 7d0 0 1000 0 / 0 0"});
}

RPC_SCRIPT(RpcVersions, NoCommonVersion, "draft 8.1",
           "a range without a version of ours closes the connection; the Call was not executed") {
    client();
    call({.xid = 7});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40"});
    peer("7 2 10 4 1 3 5");
    does({"complete 1 version-refused", "close no-version"});
}

RPC_SCRIPT(RpcVersions, RangeWithTheRefusedVersion, "draft 8.1",
           "a server that refuses version 2 and says it serves 2 alone is not asked for ever") {
    client({.versions = kOnly2});
    call({.xid = 7});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40"});
    peer("7 2 10 4 1 1 2");
    does({"complete 1 version-refused", "close no-version"});
}

RPC_SCRIPT(RpcVersions, SecondErrVers, "draft 8.1",
           "ERR_VERS for a version that was settled closes the connection") {
    client();
    call({.xid = 7});
    peer("7 2 10 4 1 1 1");
    peer("7 1 10 4 1 1 1");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "send 7 1 40 0 / 0 0 0 / call:40",
          "complete 1 version-refused", "close no-version"});
}

RPC_SCRIPT(RpcVersions, ErrVersForNothing, "draft 8.1",
           "ERR_VERS with an XID that is not outstanding is counted") {
    client();
    peer("9 2 10 4 1 1 1");
    does_nothing();
    EXPECT_EQ(connection().counters().unknown_xids, 1U);
}

RPC_SCRIPT(RpcVersions, ServerLearnsVersion2, "draft 8.2",
           "a server answers in the version of the first message, and tells its properties") {
    server();
    peer("7 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({"send 0 2 40 6 / 2 / 1 4 1000 / 2 4 2 / 1 2", "execute 7 40"});
    reply();
    does({"send 7 2 40 0 / 1 0 / 0 0 0 / reply:40"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcVersions, ServerLearnsVersion1, "draft 8.2",
           "a Call of version 1 gets a Reply of version 1, and no properties") {
    server();
    peer("7 1 20 0 / 0 0 0 / call:40");
    does({"execute 7 40"});
    reply();
    does({"send 7 1 40 0 / 0 0 0 / reply:40"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcVersions, ServerOf1Asked2, "draft 8.2",
           "a server without version 2 answers ERR_VERS with its range, and echoes XID and version") {
    server({.versions = kOnly1});
    peer("11223344 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({"send 11223344 2 40 4 1 1 1"});
    peer("11223344 1 20 0 / 0 0 0 / call:40");
    does({"execute 11223344 40"});
    drop();
}

RPC_SCRIPT(RpcVersions, ServerAskedVersion3, "draft 8.2",
           "ERR_VERS names the lowest and the highest version that are served") {
    server();
    peer("7 3 20 0 / 0 0 / 0 0 0 / call:40");
    does({"send 7 3 40 4 1 1 2"});
}

RPC_SCRIPT(RpcVersions, OtherVersionLater, "draft 8.3", "a connection has one version") {
    open_server();
    peer("7 1 20 0 / 0 0 0 / call:40");
    does({"send 7 1 40 4 1 2 2"});
}

RPC_SCRIPT(RpcVersions, ClientOfVersion1Alone, "8166 3.3",
           "a client without version 2 begins with version 1") {
    client({.versions = kOnly1});
    call({});
    does({"send 7 1 40 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(RpcVersions, ErrorOfVersion2Settles, "draft 8",
           "an error that is not ERR_VERS shows that version 2 is served") {
    client();
    call({.xid = 7});
    peer("7 2 10 4 a");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "send 0 2 40 6 / 2 / 1 4 1000 / 2 4 2 / 1 2",
          "complete 1 error 10 0 0"});
    EXPECT_EQ(connection().version(), kVersion2);
}

}  // namespace
}  // namespace urnic::rpcrdma::sim
