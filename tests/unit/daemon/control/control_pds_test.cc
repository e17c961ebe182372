// Numbers of protection domains.
#include <functional>
#include <vector>

#include "tests/unit/daemon/control_objects.h"

namespace urnic::daemon {
namespace {

using abi::Op;
using PdNumbersInUse = Control;

// After as many PDs as there are numbers.
TEST_F(PdNumbersInUse, TheNumberOfAPdInUseIsNotGivenOutAgain) {
    std::vector<std::uint32_t> numbers;
    const std::function<void(const QpConfig&)> note = [&](const QpConfig& qp) { numbers.push_back(qp.pd); };
    make_qp_hook = &note;
    (void)client_.qp(pd_, cq_);
    control.pd_numbers.continue_at(numbers[0]);
    TestClient other = client();
    const std::uint32_t context = other.open();
    const std::uint32_t first = other.pd(context);
    const std::uint32_t cq = other.cq(context);
    (void)other.qp(first, cq);
    control.pd_numbers.continue_at(0);
    (void)other.qp(other.pd(context), cq);
    ASSERT_EQ(numbers.size(), 3U);
    EXPECT_NE(numbers[0], numbers[1]);
    EXPECT_NE(numbers[0], numbers[2]);
    EXPECT_NE(numbers[1], numbers[2]);
    EXPECT_NE(numbers[2], 0U) << "no PD";
    // Free again once its PD is gone.
    const std::uint32_t short_lived = other.pd(context);
    (void)other.qp(short_lived, cq);
    const std::uint32_t again = numbers.back();
    EXPECT_EQ(other.on_handle(Op::kCloseDevice, context), 0);
    control.pd_numbers.continue_at(again);
    const std::uint32_t next = other.open();
    (void)other.qp(other.pd(next), other.cq(next));
    make_qp_hook = nullptr;
    EXPECT_EQ(numbers.back(), again);
}

}  // namespace
}  // namespace urnic::daemon
