// torture --seed N --seconds S [--transfers T] [--churns C] [--until WHAT]... [--at-most S]: verbs objects
// created, used and destroyed at random by many threads while others transfer data and verify every byte.
// What each thread decides follows from the seed alone; how the threads meet does not. It ends after so many
// seconds, but not before everything that --until names has been done, nor after --at-most seconds. Exit
// status 1, and a line that says what went wrong, as soon as something does.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/suites/torture/shared.h"

namespace {

using namespace urnic::torture;

constexpr std::size_t kPartBytes = 512U << 10U;

struct Arguments {
    std::uint64_t seed = 1;
    unsigned seconds = 10;
    unsigned transfers = 3;
    unsigned churns = 3;
    unsigned at_most = 600;  // seconds
    std::vector<std::string> until;
};

Arguments read_arguments(int argc, char** argv) {
    Arguments arguments;
    for (int i = 1; i + 1 < argc; i += 2) {
        const auto value = std::strtoull(argv[i + 1], nullptr, 0);
        if (std::strcmp(argv[i], "--until") == 0)
            arguments.until.emplace_back(argv[i + 1]);
        else if (std::strcmp(argv[i], "--at-most") == 0)
            arguments.at_most = static_cast<unsigned>(value);
        else if (std::strcmp(argv[i], "--seed") == 0)
            arguments.seed = value;
        else if (std::strcmp(argv[i], "--seconds") == 0)
            arguments.seconds = static_cast<unsigned>(value);
        else if (std::strcmp(argv[i], "--transfers") == 0)
            arguments.transfers = static_cast<unsigned>(value);
        else if (std::strcmp(argv[i], "--churns") == 0)
            arguments.churns = static_cast<unsigned>(value);
        else
            fail("no such option: %s", argv[i]);
    }
    return arguments;
}

/// The threads work meanwhile.
void wait_for_the_end(const Shared& shared, const Arguments& arguments) {
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(arguments.seconds));
    const auto latest = begin + std::chrono::seconds(arguments.at_most);
    const auto all_done = [&] {
        return std::all_of(arguments.until.begin(), arguments.until.end(),
                           [&](const std::string& what) { return shared.has_done(what); });
    };
    while (!all_done() && std::chrono::steady_clock::now() < latest) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
}

}  // namespace

int main(int argc, char** argv) {
    const Arguments arguments = read_arguments(argc, argv);
    std::printf("torture --seed %llu --seconds %u --transfers %u --churns %u\n",
                static_cast<unsigned long long>(arguments.seed), arguments.seconds, arguments.transfers,
                arguments.churns);
    (void)std::fflush(stdout);
    Shared shared(arguments.seed, kPartBytes * (arguments.transfers + 1));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < arguments.transfers; ++i) {
        threads.emplace_back([&shared, i] {
            name_thread("transfer " + std::to_string(i));
            transfer(shared, i, kPartBytes);
        });
    }
    for (unsigned i = 0; i < arguments.churns; ++i) {
        threads.emplace_back([&shared, i] {
            name_thread("churn " + std::to_string(i));
            churn(shared, i);
        });
    }
    threads.emplace_back([&shared] {
        name_thread("events");
        take_events(shared);
    });
    wait_for_the_end(shared, arguments);
    shared.end();
    for (std::thread& thread : threads) thread.join();
    shared.print();
    std::printf("all data right\n");
    return 0;
}
