// One side of a test between two RNICs of any make. The same program runs on both; it moves data that both
// verify. Exit status 0: everything that this side saw was right.
#include <getopt.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "tests/interop/peer/cases.h"

namespace {

using urnic::interop::Case;

constexpr const char* kUsage =
    "usage: peer --test NAME [--connect HOST] [--port N] [--device NAME] [--gid INDEX] [--mtu BYTES]\n"
    "            [--timeout EXPONENT] [--count N] [--rounds N]\n"
    "       peer --list\n"
    "Without --connect it waits for the other side.\n";

const Case* find_case(std::string_view name) {
    for (const auto cases : {urnic::interop::transfer_cases(), urnic::interop::window_cases(),
                             urnic::interop::failure_cases(), urnic::interop::datagram_cases()}) {
        for (const Case& one : cases) {
            if (name.empty()) {
                std::printf("%.*s\t%.*s\n", static_cast<int>(one.name.size()), one.name.data(),
                            static_cast<int>(one.what.size()), one.what.data());
            } else if (one.name == name) {
                return &one;
            }
        }
    }
    return nullptr;
}

constexpr std::array kOptions{
    option{"test", required_argument, nullptr, 't'},
    option{"connect", required_argument, nullptr, 'c'},
    option{"port", required_argument, nullptr, 'p'},
    option{"device", required_argument, nullptr, 'd'},
    option{"gid", required_argument, nullptr, 'g'},
    option{"mtu", required_argument, nullptr, 'm'},
    option{"timeout", required_argument, nullptr, 'u'},
    option{"count", required_argument, nullptr, 'n'},
    option{"rounds", required_argument, nullptr, 'r'},
    option{"list", no_argument, nullptr, 'l'},
    option{nullptr, 0, nullptr, 0},
};

bool parse(int argc, char** argv, urnic::interop::Options& options) {
    int letter = 0;
    while ((letter = ::getopt_long(argc, argv, "", kOptions.data(), nullptr)) != -1) {
        switch (letter) {
            case 't':
                options.test = optarg;
                break;
            case 'c':
                options.host = optarg;
                break;
            case 'd':
                options.device = optarg;
                break;
            case 'p':
                options.port = std::atoi(optarg);
                break;
            case 'g':
                options.gid_index = std::atoi(optarg);
                break;
            case 'm':
                options.mtu = std::atoi(optarg);
                break;
            case 'u':
                options.timeout = std::atoi(optarg);
                break;
            case 'n':
                options.count = std::atoi(optarg);
                break;
            case 'r':
                options.rounds = std::atoi(optarg);
                break;
            case 'l':
                options.test.clear();
                return true;
            default:
                return false;
        }
    }
    return optind == argc && !options.test.empty();
}

int run(const urnic::interop::Options& options, const Case& one) {
    try {
        auto link = options.host.empty() ? urnic::interop::Link::listen(options.port)
                                         : urnic::interop::Link::connect(options.host, options.port);
        urnic::interop::Side side(options, std::move(link));
        one.run(side);
    } catch (const std::exception& error) {
        std::printf("peer: %s: WRONG: %s\n", options.test.c_str(), error.what());
        return 1;
    }
    std::printf("peer: %s: right\n", options.test.c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    urnic::interop::Options options;
    if (!parse(argc, argv, options)) {
        std::fputs(kUsage, stderr);
        return 2;
    }
    const Case* one = find_case(options.test);
    if (options.test.empty()) {
        return 0;
    }
    if (one == nullptr) {
        std::fprintf(stderr, "peer: no test %s; --list names all\n", options.test.c_str());
        return 2;
    }
    return run(options, *one);
}
