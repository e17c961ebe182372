// The request of `urnic capture`: what is refused, what reaches the workers, and how it ends.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "abi/capture.h"
#include "os/memfd.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

constexpr std::size_t kWorkersBytes = std::size_t{1} << 20U;
constexpr std::size_t kBufferBytes = kWorkersBytes + abi::kControlCaptureBytes;

class ControlCapture : public ControlTest {
  public:
    ControlCapture() { dataplane::worker_record().captures = 0; }
    static UniqueFd buffer(std::size_t bytes = kBufferBytes) {
        Memfd file;
        EXPECT_EQ(create_memfd("buffer", bytes, Sharing::kWritable, file), 0);
        return std::move(file.fd);
    }
    /// Asks without a Hello.
    static Answer ask(const TestClient& client, int fd, const std::string& devices = "") {
        abi::CaptureRequest request{};
        request.snap_bytes = 128;
        std::strncpy(request.devices, devices.c_str(), sizeof request.devices - 1);
        return client.ask(abi::Op::kCapture, request, {fd});
    }
    static std::string words(const Answer& answer) { return answer.as<abi::CaptureReply>().message; }
    static std::uint32_t captures() { return dataplane::worker_record().captures; }
};

TEST_F(ControlCapture, ItEndsWithItsConnection) {
    const UniqueFd file = buffer();
    TestClient client = connect();
    const Answer answer = ask(client, file.get());
    ASSERT_EQ(answer.error(), 0);
    EXPECT_EQ(answer.as<abi::CaptureReply>().rings, kWorkers);
    EXPECT_EQ(answer.as<abi::CaptureReply>().ring_bytes, kWorkersBytes / kWorkers / 4096 * 4096);
    EXPECT_EQ(answer.as<abi::CaptureReply>().control_bytes, abi::kControlCaptureBytes);
    EXPECT_EQ(answer.fds.size(), 1U);
    EXPECT_EQ(captures(), 1U);
    const Answer second = ask(client, file.get());
    EXPECT_EQ(second.error(), EBUSY);
    EXPECT_NE(words(second).find("this connection has a capture"), std::string::npos);
    client.close();
    wait_for_connections(0);
    EXPECT_EQ(captures(), 0U);
}

/// What the control thread itself sees goes into the part behind those of the workers, while the capture
/// lasts.
TEST_F(ControlCapture, TheControlThreadHasARing) {
    Memfd file;
    ASSERT_EQ(create_memfd("buffer", kBufferBytes, Sharing::kWritable, file), 0);
    TestClient client = connect();
    const Answer answer = ask(client, file.fd.get(), "urnic1");
    ASSERT_EQ(answer.error(), 0);
    const auto started = answer.as<abi::CaptureReply>();
    const auto see = [&](std::uint32_t rnic) {
        const std::byte bytes[4]{};
        dataplane::CaptureWriter::Packet packet;
        packet.rnic = rnic;
        packet.bytes = bytes;
        on_control_thread([&] {
            (void)control.captures.writer().write(packet, 1, true, {});
            control.captures.writer().publish();
        });
    };
    see(0);
    see(1);
    const auto* const ring =
        reinterpret_cast<const abi::CaptureRing*>(file.mapping.data() + started.rings * started.ring_bytes);
    EXPECT_EQ(ring->head.load(), sizeof(abi::CaptureRecord) + 8);
    EXPECT_EQ(ring->rnics[0].seen.load(), 0U);
    EXPECT_EQ(ring->rnics[1].seen.load(), 1U);
    client.close();
    wait_for_connections(0);
    see(1);
    EXPECT_EQ(ring->rnics[1].seen.load(), 1U);
}

TEST_F(ControlCapture, AsManyAsWorkersCanHave) {
    std::vector<TestClient> clients;
    std::vector<UniqueFd> files;
    for (std::size_t i = 0; i < dataplane::kMaxProgramCaptures; ++i) {
        clients.push_back(connect());
        files.push_back(buffer());
        EXPECT_EQ(ask(clients.back(), files.back().get(), "urnic1").error(), 0);
    }
    EXPECT_EQ(captures(), dataplane::kMaxProgramCaptures);
    const UniqueFd file = buffer();
    EXPECT_EQ(ask(connect(), file.get()).error(), EBUSY);
    clients.clear();
    wait_for_connections(0);
    EXPECT_EQ(captures(), 0U);
}

TEST_F(ControlCapture, WrongRequestsChangeNothing) {
    const UniqueFd file = buffer();
    const Answer unknown = ask(connect(), file.get(), "urnic0\nurnic9");
    EXPECT_EQ(unknown.error(), ENODEV);
    EXPECT_NE(words(unknown).find("\"urnic9\"; there are urnic0, urnic1"), std::string::npos);
    EXPECT_EQ(connect().ask(abi::Op::kCapture, abi::CaptureRequest{}).error(), EINVAL) << "no buffer";
    const UniqueFd small = buffer(abi::kMinCaptureRingBytes);
    EXPECT_EQ(ask(connect(), small.get()).error(), EINVAL);
    const UniqueFd too_small =
        buffer(kWorkers * abi::kMinCaptureRingBytes + abi::kControlCaptureBytes - 4096);
    const Answer refused = ask(connect(), too_small.get());
    EXPECT_EQ(refused.error(), EINVAL);
    EXPECT_NE(words(refused).find("for each of 3 workers and 4198400 for the control thread"),
              std::string::npos)
        << words(refused);
    const UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(unsealed.get(), kBufferBytes), 0);
    EXPECT_EQ(ask(connect(), unsealed.get()).error(), EINVAL);
    const UniqueFd other(::open("/dev/zero", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(ask(connect(), other.get()).error(), EINVAL);
    wait_for_connections(0);
    EXPECT_EQ(captures(), 0U);
}

}  // namespace
}  // namespace urnic::daemon
