#include <atomic>
#include <cstring>

#include "tests/unit/ulp/rpcrdma/onc/service_fixture.h"

namespace urnic::rpcrdma::onc {

namespace {

constexpr rpcprog_t kGuardedProgram = 0x20004712;
constexpr enum_t kTokenFlavor = 77;
constexpr int kMostRefreshes = 1000;
std::atomic<std::uint32_t> valid_token{1};

/// Answers with the caller's uid; NULLPROC needs credentials of any kind.
void guarded(svc_req* request, SVCXPRT* transport) {
    if (request->rq_cred.oa_flavor == AUTH_NONE) {
        svcerr_weakauth(transport);
        return;
    }
    u_int uid = 0;
    if (request->rq_cred.oa_flavor == AUTH_SYS) {
        uid = static_cast<authunix_parms*>(request->rq_clntcred)->aup_uid;
    }
    svc_sendreply(transport, reinterpret_cast<xdrproc_t>(xdr_u_int), &uid);
}

auth_stat check_token(svc_req* /*request*/, rpc_msg* message) {
    const opaque_auth& credentials = message->rm_call.cb_cred;
    std::uint32_t token = 0;
    if (credentials.oa_length != sizeof token) {
        return AUTH_BADCRED;
    }
    std::memcpy(&token, credentials.oa_base, sizeof token);
    return token == valid_token ? AUTH_OK : AUTH_REJECTEDCRED;
}

/// Credentials of a flavor of the program's: a token that gets out of date.
struct TokenAuth {
    AUTH auth{};
    std::uint32_t token = 0;
    std::atomic<int> refreshes{0};
    bool is_renewed = true;

    TokenAuth() {
        static AUTH::auth_ops* const functions = ops();
        auth.ah_cred = {.oa_flavor = kTokenFlavor,
                        .oa_base = reinterpret_cast<caddr_t>(&token),
                        .oa_length = sizeof token};
        auth.ah_verf = _null_auth;
        auth.ah_ops = functions;
        auth.ah_private = this;
    }
    static auto ops() -> decltype(AUTH::ah_ops);
};

int token_marshal(AUTH* auth, XDR* xdr) {
    return xdr_opaque_auth(xdr, &auth->ah_cred) && xdr_opaque_auth(xdr, &auth->ah_verf) ? TRUE : FALSE;
}
int token_refresh(AUTH* auth, void* /*message*/) {
    auto& self = *static_cast<TokenAuth*>(auth->ah_private);
    self.token = self.is_renewed ? valid_token.load() : self.token;
    return ++self.refreshes <= kMostRefreshes ? TRUE : FALSE;
}
int token_wrap(AUTH* /*auth*/, XDR* xdr, xdrproc_t proc, caddr_t object) { return proc(xdr, object); }

auto TokenAuth::ops() -> decltype(AUTH::ah_ops) {
    static std::remove_pointer_t<decltype(AUTH::ah_ops)> functions = {
        [](AUTH* /*auth*/) {},
        token_marshal,
        [](AUTH* /*auth*/, opaque_auth* /*verifier*/) { return TRUE; },
        token_refresh,
        [](AUTH* /*auth*/) {},
        token_wrap,
        token_wrap};
    return &functions;
}

}  // namespace

class OncAuth : public ServiceTest {
  protected:
    OncAuth() {
        EXPECT_GE(svc_auth_reg(kTokenFlavor, check_token), 0);
        EXPECT_TRUE(svc_register(transport, kGuardedProgram, 1, guarded, 0));
        run(2);
        caller = connect(kGuardedProgram, 1);
        own_auth = caller->cl_auth;
    }
    ~OncAuth() override {
        stop();
        svc_unregister(kGuardedProgram, 1);
        clnt_destroy(caller);
    }
    clnt_stat call() {
        const timeval timeout{.tv_sec = 25, .tv_usec = 0};
        return clnt_call(caller, 1, reinterpret_cast<xdrproc_t>(xdr_u_int), &uid,
                         reinterpret_cast<xdrproc_t>(xdr_u_int), &uid, timeout);
    }
    rpc_err error() const {
        rpc_err last{};
        clnt_geterr(caller, &last);
        return last;
    }
    CLIENT* caller = nullptr;
    AUTH* own_auth = nullptr;
    u_int uid = 0;
};

TEST_F(OncAuth, NoneIsTooWeak) {
    EXPECT_EQ(call(), RPC_AUTHERROR);
    EXPECT_EQ(error().re_why, AUTH_TOOWEAK);
}

TEST_F(OncAuth, SysTellsTheUser) {
    char host[] = "host";
    gid_t groups[] = {10, 20};
    caller->cl_auth = authsys_create(host, 4711, 100, 2, groups);
    EXPECT_EQ(call(), RPC_SUCCESS);
    EXPECT_EQ(uid, 4711U);
    auth_destroy(caller->cl_auth);
    caller->cl_auth = own_auth;
}

TEST_F(OncAuth, RejectedCredentialsAreRenewed) {
    TokenAuth token;
    caller->cl_auth = &token.auth;
    valid_token = 5;
    EXPECT_EQ(call(), RPC_SUCCESS);
    EXPECT_EQ(token.refreshes, 1);
    EXPECT_EQ(call(), RPC_SUCCESS);
    EXPECT_EQ(token.refreshes, 1);
    // Renewal that does not help ends.
    valid_token = 6;
    token.is_renewed = false;
    EXPECT_EQ(call(), RPC_AUTHERROR);
    EXPECT_EQ(error().re_why, AUTH_REJECTEDCRED);
    EXPECT_LT(token.refreshes, 10);
    caller->cl_auth = own_auth;
}

// Flavors that we do not know may change what they wrap: nothing is left out of their messages.
TEST_F(OncAuth, OtherFlavorsHaveNoItems) {
    TokenAuth token;
    token.token = valid_token;
    AUTH* const before = client->cl_auth;
    client->cl_auth = &token.auth;
    EXPECT_EQ(echo(client, 900), RPC_SUCCESS);
    EXPECT_TRUE(loopback::seen().call_items.empty());
    EXPECT_TRUE(loopback::seen().reply_items.empty());
    client->cl_auth = before;
}

TEST_F(OncAuth, GssIsRefused) {
    TokenAuth token;
    token.auth.ah_cred.oa_flavor = RPCSEC_GSS;
    caller->cl_auth = &token.auth;
    EXPECT_EQ(call(), RPC_AUTHERROR);
    EXPECT_EQ(error().re_why, AUTH_FAILED);
    caller->cl_auth = own_auth;
}

}  // namespace urnic::rpcrdma::onc
