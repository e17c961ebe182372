// Address handles and QPs of the unreliable services, as clients ask for them.
#include <cstring>
#include <set>

#include "rnic/wire/frame.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

class ControlAh : public ControlTest {
  protected:
    ControlAh() : client_(client()), context_(client_.open()), pd_(client_.pd(context_)) {}

    [[nodiscard]] abi::CreateAhReply create(const abi::CreateAhRequest& request) const {
        const Answer answer = client_.ask(Op::kCreateAh, request);
        EXPECT_EQ(answer.error(), 0);
        return answer.as<abi::CreateAhReply>();
    }
    [[nodiscard]] int error_of(const abi::CreateAhRequest& request) const {
        return client_.ask(Op::kCreateAh, request).error();
    }
    [[nodiscard]] const AddressHandles& handles() const { return control.devices[0]->device->handles; }

    TestClient client_;
    std::uint32_t context_;
    std::uint32_t pd_;
};

TEST_F(ControlAh, TheKeyLeadsToThePath) {
    abi::CreateAhRequest request = ah_request(pd_);
    request.av.traffic_class = 0x28;
    request.av.hop_limit = 7;
    const abi::CreateAhReply reply = create(request);
    const AddressHandle* handle = handles().find(reply.key);
    ASSERT_NE(handle, nullptr);
    EXPECT_FALSE(handle->has_flow_label);
    const wire::Path& path = handle->path;
    const std::uint8_t destination[] = {2, 0, 0, 0, 0, 2};
    EXPECT_EQ(std::memcmp(path.bytes.data(), destination, sizeof destination), 0);
    EXPECT_EQ(path.bytes[15], 0x28);
    EXPECT_EQ(path.bytes[22], 7);
    EXPECT_EQ(path.bytes[33], 2);
    EXPECT_EQ(control.devices[0]->num_ahs, 1U);
    EXPECT_EQ(client_.on_handle(Op::kDestroyAh, reply.handle), 0);
    EXPECT_EQ(handles().find(reply.key), nullptr);
    EXPECT_EQ(client_.on_handle(Op::kDestroyAh, reply.handle), ENOENT);
    EXPECT_EQ(control.devices[0]->num_ahs, 0U);
}

TEST_F(ControlAh, AFlowLabelChoosesTheSourcePort) {
    abi::CreateAhRequest request = ah_request(pd_);
    request.av.flow_label = 0x12345;
    const AddressHandle* handle = handles().find(create(request).key);
    ASSERT_NE(handle, nullptr);
    EXPECT_TRUE(handle->has_flow_label);
    const wire::Path& path = handle->path;
    EXPECT_EQ(path.bytes[34] << 8 | path.bytes[35], wire::udp_source_port(0x12345, 0, 0));
}

TEST_F(ControlAh, AddressVectorsThatAreNone) {
    const abi::CreateAhRequest good = ah_request(pd_);
    abi::CreateAhRequest bad = good;
    bad.pd = 77;
    EXPECT_EQ(error_of(bad), ENOENT);
    bad = good;
    bad.av.is_global = 0;
    EXPECT_EQ(error_of(bad), EINVAL);
    for (const std::uint8_t port : {0, 2, 255}) {
        bad = good;
        bad.av.port_num = port;
        EXPECT_EQ(error_of(bad), EINVAL) << int{port};
    }
    for (const std::uint8_t index : {0, 2, 15, 16, 255}) {  // of another family, free, beyond the table
        bad = good;
        bad.av.sgid_index = index;
        EXPECT_EQ(error_of(bad), EINVAL) << int{index};
    }
    bad = good;
    bad.av.dgid[15] = 99;
    EXPECT_EQ(error_of(bad), ENETUNREACH);
    EXPECT_EQ(handles().size(), 0U);
}

TEST_F(ControlAh, APdWithHandlesIsBusy) {
    const abi::CreateAhReply reply = create(ah_request(pd_));
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), EBUSY);
    EXPECT_EQ(client_.on_handle(Op::kDestroyAh, reply.handle), 0);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), 0);
}

TEST_F(ControlAh, PlacesOfDestroyedHandlesAreUsedAgain) {
    std::set<std::uint32_t> keys;
    for (int i = 0; i < 1000; ++i) {
        const abi::CreateAhReply reply = create(ah_request(pd_));
        EXPECT_TRUE(keys.insert(reply.key).second);
        ASSERT_EQ(client_.on_handle(Op::kDestroyAh, reply.handle), 0);
    }
    EXPECT_LT(handles().size() + handles().removed(), 100U);
}

TEST_F(ControlAh, ClosingADeviceEndsItsHandles) {
    for (int i = 0; i < 200; ++i) {
        (void)create(ah_request(pd_));
    }
    const std::uint32_t key = create(ah_request(pd_)).key;
    EXPECT_EQ(client_.on_handle(Op::kCloseDevice, context_), 0);
    EXPECT_EQ(handles().find(key), nullptr);
    EXPECT_EQ(control.devices[0]->num_ahs, 0U);
    EXPECT_LT(handles().size() + handles().removed(), 100U);
    client_.close();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(ControlAh, EveryHandleThatTheDeviceReportsCanBeHad) {
    // As if others had taken all but two.
    RnicState& device = *control.devices[0];
    while (device.num_ahs < AddressHandles::kSlots - 2) {
        ASSERT_NE(device.device->handles.add({}), 0U);
        ++device.num_ahs;
    }
    const abi::CreateAhReply reply = create(ah_request(pd_));
    EXPECT_EQ(error_of(ah_request(pd_)), 0);
    EXPECT_EQ(error_of(ah_request(pd_)), ENOMEM);
    // One is destroyed, and its place is not free yet when the next is wanted.
    EXPECT_EQ(client_.on_handle(Op::kDestroyAh, reply.handle), 0);
    EXPECT_EQ(handles().removed(), 1U);
    EXPECT_EQ(error_of(ah_request(pd_)), 0);
    EXPECT_EQ(handles().removed(), 0U);
}

TEST_F(ControlAh, QpsOfEveryTypeThatIsOffered) {
    const std::uint32_t cq = client_.cq(context_);
    for (int type = 0; type < 256; ++type) {
        abi::CreateQpRequest request = qp_request(pd_, cq);
        request.type = static_cast<std::uint8_t>(type);
        const auto kind = static_cast<QpType>(type);
        const bool offered =
            kind == QpType::kRc || kind == QpType::kUc || kind == QpType::kUd || kind == QpType::kXrcSend;
        const bool lacks_domain = kind == QpType::kXrcRecv;
        EXPECT_EQ(client_.ask(Op::kCreateQp, request).error(), offered        ? 0
                                                               : lacks_domain ? ENOENT
                                                                              : EOPNOTSUPP)
            << type;
    }
}

TEST_F(ControlAh, ThePortCountsKeyViolations) {
    control.devices[0]->device->counters[0].drop_qkey.add(3);
    control.devices[0]->device->counters[2].drop_qkey.add(4);
    control.devices[0]->device->counters[1].drop_pkey.add(5);
    abi::QueryPortRequest request{};
    request.context = context_;
    request.port_num = 1;
    const auto reply = client_.ask(Op::kQueryPort, request).as<abi::QueryPortReply>();
    EXPECT_EQ(reply.qkey_violation_counter, 7U);
    EXPECT_EQ(reply.bad_pkey_counter, 5U);
}

}  // namespace
}  // namespace urnic::daemon
