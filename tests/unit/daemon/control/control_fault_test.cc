// The request of `urnic fault`: who may, what is refused, what reaches the workers.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "daemon/config/config.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

class ControlFault : public ControlTest {
  public:
    ControlFault() { dataplane::worker_record().plans = 0; }
    static UniqueFd text_file(const std::string& text, int seals = F_SEAL_SHRINK | F_SEAL_GROW) {
        UniqueFd file(::memfd_create("faults", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
        EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
        return file;
    }
    /// Asks without a Hello.
    Answer ask(abi::FaultAction action, const std::vector<int>& fds = {}, std::uint32_t id = 0) const {
        abi::FaultRequest request{};
        request.action = action;
        request.id = id;
        std::strcpy(request.source, "test");
        return connect().ask(abi::Op::kFault, request, fds);
    }
    Answer add(const std::string& text) const {
        const UniqueFd file = text_file(text);
        return ask(abi::FaultAction::kAdd, {file.get()});
    }
    nlohmann::json list() const {
        const Answer answer = ask(abi::FaultAction::kList);
        EXPECT_EQ(answer.error(), 0);
        EXPECT_EQ(answer.fds.size(), 1U);
        std::string text(65536, '\0');
        const ssize_t got = ::pread(answer.fds.at(0).get(), text.data(), text.size(), 0);
        text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        return nlohmann::json::parse(text)["faults"];
    }
    static std::string words(const Answer& answer) { return answer.as<abi::FaultReply>().message; }
};

TEST_F(ControlFault, FaultsComeAndGo) {
    EXPECT_EQ(add(R"([{"type": "drop", "device": "urnic1"}])").error(), 0);
    EXPECT_EQ(dataplane::worker_record().plans, 1U);
    EXPECT_EQ(add(R"([{"type": "ecn"}, {"type": "drop", "psn": 1}])").error(), 0);
    EXPECT_EQ(dataplane::worker_record().plans, 2U);
    nlohmann::json faults = list();
    ASSERT_EQ(faults.size(), 3U);
    EXPECT_EQ(faults[0]["id"], 1);
    EXPECT_EQ(faults[2]["psn"], 1);
    EXPECT_EQ(ask(abi::FaultAction::kRemove, {}, 2).error(), 0);
    EXPECT_EQ(list().size(), 2U);
    EXPECT_EQ(ask(abi::FaultAction::kClear).error(), 0);
    EXPECT_EQ(dataplane::worker_record().plans, 0U);
    EXPECT_TRUE(list().empty());
    EXPECT_EQ(add(R"([{"type": "ecn"}])").error(), 0);
    EXPECT_EQ(list()[0]["id"], 4) << "numbers are not used again";
}

TEST_F(ControlFault, EveryWorkerIsToldOnce) {
    const std::uint64_t before = dataplane::worker_record().calls;
    EXPECT_EQ(add(R"([{"type": "ecn"}])").error(), 0);
    EXPECT_EQ(dataplane::worker_record().calls, before + kWorkers);
}

TEST_F(ControlFault, OfAWrongListNothingIsTaken) {
    for (const char* text : {R"([{"type": "ecn"}, {"type": "ecn", "device": "urnic9"}])",
                             R"([{"type": "ecn"}, {"type": "nothing"}])", "[{"}) {
        const Answer answer = add(text);
        EXPECT_EQ(answer.error(), EINVAL);
        EXPECT_EQ(words(answer).find("test:"), 0U) << words(answer);
    }
    EXPECT_NE(words(add(R"([{"type": "ecn", "device": "urnic9"}])")).find("there are urnic0, urnic1"),
              std::string::npos);
    EXPECT_TRUE(list().empty());
    EXPECT_EQ(dataplane::worker_record().plans, 0U);
}

TEST_F(ControlFault, ThereIsAnEndToTheirNumber) {
    std::string many = "[";
    for (std::size_t i = 0; i < kMaxFaults; ++i) {
        many += std::string(i == 0 ? "" : ",") + R"({"type": "ecn"})";
    }
    EXPECT_EQ(add(many + "]").error(), 0);
    const Answer answer = add(R"([{"type": "ecn"}])");
    EXPECT_EQ(answer.error(), EINVAL);
    EXPECT_NE(words(answer).find("at most 256"), std::string::npos);
    EXPECT_EQ(list().size(), kMaxFaults);
}

TEST_F(ControlFault, WrongRequestsAreRefused) {
    const Answer unknown = ask(abi::FaultAction::kRemove, {}, 77);
    EXPECT_EQ(unknown.error(), ENOENT);
    EXPECT_NE(words(unknown).find("no fault has the number 77"), std::string::npos);
    EXPECT_EQ(ask(static_cast<abi::FaultAction>(0)).error(), EINVAL);
    EXPECT_EQ(ask(static_cast<abi::FaultAction>(99)).error(), EINVAL);
    EXPECT_EQ(ask(abi::FaultAction::kAdd).error(), EINVAL) << "no text";
    const UniqueFd file = text_file("[]");
    EXPECT_EQ(ask(abi::FaultAction::kList, {file.get()}).error(), EINVAL);
    abi::StatusRequest wrong_length{};
    EXPECT_EQ(connect().ask(abi::Op::kFault, wrong_length).error(), EINVAL);
}

TEST_F(ControlFault, ATextThatCouldHurtIsNotRead) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
    const UniqueFd reader(pipe_ends[0]);
    const UniqueFd writer(pipe_ends[1]);
    EXPECT_EQ(ask(abi::FaultAction::kAdd, {reader.get()}).error(), EINVAL) << "a pipe would block the daemon";
    const UniqueFd open = text_file("[]", F_SEAL_GROW);
    EXPECT_EQ(ask(abi::FaultAction::kAdd, {open.get()}).error(), EINVAL) << "may shrink";
    const UniqueFd large = make_memory_file(F_SEAL_SHRINK | F_SEAL_GROW);
    EXPECT_EQ(ask(abi::FaultAction::kAdd, {large.get()}).error(), EINVAL) << "as large as a memory file";
    EXPECT_EQ(add("[]").error(), 0);
}

}  // namespace
}  // namespace urnic::daemon
