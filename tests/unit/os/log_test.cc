#include "os/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "os/unique_fd.h"

namespace urnic {
namespace {

/// Stderr is a pipe of four pages.
class LogTest : public testing::Test {
  protected:
    LogTest() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
        reader_ = UniqueFd(ends[0]);
        writer_ = UniqueFd(ends[1]);
        EXPECT_GT(::fcntl(writer_.get(), F_SETPIPE_SZ, 4 * 4096), 0);
        before_ = UniqueFd(::dup(STDERR_FILENO));
        // Writes to it wait, as those to a daemon's stderr do.
        EXPECT_EQ(::fcntl(writer_.get(), F_SETFL, 0), 0);
        ::dup2(writer_.get(), STDERR_FILENO);
    }
    ~LogTest() override { ::dup2(before_.get(), STDERR_FILENO); }

    std::string read_all() {
        std::array<char, 1 << 16> text{};
        const ssize_t bytes = ::read(reader_.get(), text.data(), text.size());
        return {text.data(), bytes < 0 ? 0 : static_cast<std::size_t>(bytes)};
    }

    UniqueFd reader_;
    UniqueFd writer_;
    UniqueFd before_;
};

TEST_F(LogTest, NobodyWaitsForAReader) {
    const std::string line(1000, 'x');
    for (int i = 0; i < 1000; ++i) {
        log_warning("{}", line);
    }
    const std::string first = read_all();
    const std::size_t lines = first.size() / (line.size() + sizeof "urnicd: warning: ");
    EXPECT_GE(lines, 1U);
    log_info("again");
    EXPECT_EQ(read_all(),
              "urnicd: warning: " + std::to_string(1000 - lines) +
                  " messages before this one were lost, since nobody read stderr\nurnicd: again\n");
    log_info("and again");
    EXPECT_EQ(read_all(), "urnicd: and again\n");
}

TEST_F(LogTest, ALineThatIsTooLongIsCut) {
    log_error("{}", std::string(100'000, 'x'));
    EXPECT_EQ(read_all().size(), 4096U);
}

TEST_F(LogTest, AReaderThatIsGone) {
    reader_ = UniqueFd();
    ::signal(SIGPIPE, SIG_IGN);
    log_info("nobody hears it");
}

}  // namespace
}  // namespace urnic
