// A daemon that lies: it stands between a program and the real daemon, passes each request on, and changes
// replies, descriptors, events and shared memory on the way back.
//   lying_daemon LISTEN_SOCKET DAEMON_SOCKET SEED truthful|lying|silent
// "silent" answers no request but the Hello and OpenDevice. Connection N of a run lies by SEED + N alone;
// "lying" leaves every eighth connection truthful but for the memory and the events. Prints "ready", and at
// SIGTERM how many connections and lies there were.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "tests/e2e/hostile/shared.h"

namespace urnic::e2e {
namespace {

enum class Mode : std::uint8_t { kTruthful, kLying, kSilent };

constexpr int kScribbleEveryMs = 1;
constexpr int kSilenceMs = 200;

std::atomic<std::uint64_t> connections{0};
std::atomic<std::uint64_t> lies{0};

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        fprintf(stderr, "%s is too long\n", path.c_str());
        std::exit(2);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

UniqueFd connect_to(const std::string& path) {
    const sockaddr_un address = address_of(path);
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return {};
    }
    return socket;
}

abi::Op op_of(const Message& request) {
    abi::RequestHeader header{};
    std::memcpy(&header, request.bytes.data(), std::min(request.bytes.size(), sizeof header));
    return header.op;
}

class Connection {
  public:
    Connection(UniqueFd program, UniqueFd daemon, Mode mode, std::uint64_t seed)
        : program_(std::move(program)), daemon_(std::move(daemon)), mode_(mode), random_(seed) {
        static constexpr std::uint64_t kOneIn[] = {0, 1, 2, 4, 8, 16, 32, 64};
        lie_one_in_ = mode == Mode::kLying ? kOneIn[below(random_, std::size(kOneIn))] : 0;
        scribbles_ = mode == Mode::kLying && below(random_, 2) == 0;
    }

    void serve() {
        for (;;) {
            pollfd program{program_.get(), POLLIN, 0};
            const int ready = ::poll(&program, 1, scribbles_ ? kScribbleEveryMs : -1);
            if (scribbles_) {
                shared_.scribble();
            }
            if (ready > 0 && !pass_on()) {
                return;
            }
        }
    }

  private:
    /// One request and its reply. Returns whether the connection continues.
    bool pass_on() {
        Message request;
        Message reply;
        if (!request.receive(program_.get()) || !request.send(daemon_.get()) ||
            !reply.receive(daemon_.get())) {
            return false;
        }
        const abi::Op op = op_of(request);
        if (mode_ == Mode::kSilent && op != abi::Op::kHello && op != abi::Op::kOpenDevice) {
            return true;
        }
        if (mode_ == Mode::kLying) {
            shared_.learn(request, reply);
            // librdmacm keeps its contexts: a connection that never lied would be the program's only one.
            if (++requests_ > kMostRequests) {
                ++lies;
                return false;
            }
        }
        int times = 1;
        // Without a session there is nothing to see: most Hellos are true.
        const bool is_spared = op == abi::Op::kHello && below(random_, 8) != 0;
        if (lie_one_in_ != 0 && !is_spared && below(random_, lie_one_in_) == 0) {
            ++lies;
            switch (below(random_, 32)) {
                case 0:
                    return false;
                case 1:
                    ::usleep(kSilenceMs * 1000);
                    return false;
                default:
                    times = lie(reply, random_);
                    break;
            }
            if (times == 0) {
                return false;  // what is never answered is another test's
            }
        }
        for (; times != 0; --times) {
            (void)reply.send(program_.get());
        }
        return true;
    }

    static constexpr std::uint64_t kMostRequests = 200;

    UniqueFd program_;
    UniqueFd daemon_;
    std::uint64_t requests_ = 0;
    Mode mode_;
    Random random_;
    std::uint64_t lie_one_in_ = 0;
    bool scribbles_ = false;
    Shared shared_{random_};
};

int run(const std::string& listen_path, const std::string& daemon_path, std::uint64_t seed, Mode mode) {
    const sockaddr_un address = address_of(listen_path);
    const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener.get(), 64) != 0) {
        perror(listen_path.c_str());
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        UniqueFd program(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        UniqueFd daemon = connect_to(daemon_path);
        const std::uint64_t number = connections++;
        if (program && daemon) {
            std::thread([program = std::move(program), daemon = std::move(daemon), mode, seed,
                         number]() mutable {
                Connection(std::move(program), std::move(daemon), mode, seed + number).serve();
            }).detach();
        }
    }
}

}  // namespace
}  // namespace urnic::e2e

int main(int argc, char** argv) {
    using urnic::e2e::Mode;
    const std::string_view mode = argc == 5 ? argv[4] : "";
    if (mode != "truthful" && mode != "lying" && mode != "silent") {
        fprintf(stderr, "usage: lying_daemon LISTEN_SOCKET DAEMON_SOCKET SEED truthful|lying|silent\n");
        return 2;
    }
    ::signal(SIGTERM, [](int) {
        char line[64];
        const int length = snprintf(line, sizeof line, "%llu connections, %llu lies\n",
                                    static_cast<unsigned long long>(urnic::e2e::connections.load()),
                                    static_cast<unsigned long long>(urnic::e2e::lies.load()));
        (void)!::write(STDOUT_FILENO, line, static_cast<std::size_t>(length));
        ::_exit(0);
    });
    return urnic::e2e::run(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10),
                           mode == "truthful" ? Mode::kTruthful
                           : mode == "lying"  ? Mode::kLying
                                              : Mode::kSilent);
}
