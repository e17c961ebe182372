// A client with a context, a PD and a CQ, and what it asks for in many of the tests.
#pragma once

#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {

class Control : public ControlTest {
  protected:
    Control()
        : client_(client()), context_(client_.open()), pd_(client_.pd(context_)), cq_(client_.cq(context_)) {}

    Answer reg_mr(abi::RegMrRequest request) const { return client_.ask(abi::Op::kRegMr, request); }
    [[nodiscard]] abi::RegMrRequest mr_request() const {
        abi::RegMrRequest request{};
        request.pd = pd_;
        request.access = kAccessLocalWrite | kAccessRemoteRead;
        request.addr = request.iova = 0x7f00'0000'0000;
        request.length = 8192;
        return request;
    }
    [[nodiscard]] abi::ModifyQpRequest rtr_request(std::uint32_t qp) const {
        abi::ModifyQpRequest request{};
        request.qp = qp;
        request.attr.mask = kQpAttrState | kQpAttrAv | kQpAttrDestQpn | kQpAttrPathMtu;
        request.attr.state = QpState::kRtr;
        request.attr.dest_qp_num = 0x123456;
        request.attr.path_mtu = 5;
        request.attr.av.is_global = 1;
        request.attr.av.port_num = 1;
        request.attr.av.sgid_index = 1;
        const wire::Gid& gid = control.devices[1]->device->gids[1];
        std::copy(gid.begin(), gid.end(), request.attr.av.dgid);
        return request;
    }

    TestClient client_;
    std::uint32_t context_;
    std::uint32_t pd_;
    std::uint32_t cq_;
};

}  // namespace urnic::daemon
