// Passes messages through two RC engines in one thread (bench/engines), for a tool that counts instructions
// while measured_messages() runs (count.py). Prints what the figures depend on as one line of JSON.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/engines/engines.h"
#include "rnic/wire/crc/crc32.h"

namespace {

using urnic::WrOpcode;

struct Name {
    const char* name;
    WrOpcode opcode;
    bool has_congestion_control = false;  // DCQCN, of which no mark is ever heard: at the full rate
    urnic::bench::PacketForm form = urnic::bench::PacketForm::kFrames;
    bool is_measured = false;  // with histograms of messages
};
constexpr urnic::bench::PacketForm kFrames = urnic::bench::PacketForm::kFrames;
constexpr urnic::bench::PacketForm kLocal = urnic::bench::PacketForm::kLocal;
constexpr Name kNames[] = {{"write", WrOpcode::kWrite},
                           {"read", WrOpcode::kRead},
                           {"send", WrOpcode::kSend},
                           {"add", WrOpcode::kFetchAdd},
                           {"write-dcqcn", WrOpcode::kWrite, true},
                           {"write-measured", WrOpcode::kWrite, false, kFrames, true},
                           {"read-measured", WrOpcode::kRead, false, kFrames, true},
                           {"write-local", WrOpcode::kWrite, false, kLocal},
                           {"send-local", WrOpcode::kSend, false, kLocal},
                           {"read-local", WrOpcode::kRead, false, kLocal}};
constexpr std::uint32_t kMaxBatch = 64;

/// A positive number of at most `most`; 0 if it is none.
std::uint32_t number(const char* text, std::uint32_t most) {
    char* end = nullptr;
    const unsigned long value = std::strtoul(text, &end, 10);
    return *end == '\0' && value <= most ? static_cast<std::uint32_t>(value) : 0;
}

}  // namespace

/// The name that the counting tool knows.
extern "C" [[gnu::noinline, gnu::used]] void measured_messages(urnic::bench::Engines* engines,
                                                               WrOpcode opcode, std::uint32_t length_bytes,
                                                               std::uint32_t batch, std::uint32_t batches);
void measured_messages(urnic::bench::Engines* engines, WrOpcode opcode, std::uint32_t length_bytes,
                       std::uint32_t batch, std::uint32_t batches) {
    for (std::uint32_t i = 0; i < batches; ++i) {
        engines->run(opcode, length_bytes, batch);
    }
}

int main(int argc, char** argv) {
    const Name* chosen = nullptr;
    for (const Name& name : kNames) {
        if (argc == 5 && std::strcmp(argv[1], name.name) == 0) {
            chosen = &name;
        }
    }
    const std::uint32_t length = chosen != nullptr ? number(argv[2], urnic::bench::Node::kBufferBytes) : 0;
    const std::uint32_t batch = chosen != nullptr ? number(argv[3], kMaxBatch) : 0;
    const std::uint32_t batches = chosen != nullptr ? number(argv[4], 1'000'000) : 0;
    if (length == 0 || batch == 0 || batches == 0) {
        std::fprintf(stderr,
                     "usage: messages write|read|send|add|write-dcqcn|write-measured|read-measured|"
                     "write-local|send-local|read-local BYTES BATCH BATCHES\n");
        return 2;
    }
    urnic::congestion::Settings settings;
    settings.rate.algorithm = urnic::congestion::Algorithm::kDcqcn;
    settings.rate.line_rate = 100'000'000'000;
    urnic::bench::Engines engines(chosen->has_congestion_control ? &settings : nullptr, chosen->form,
                                  chosen->is_measured);
    engines.run(chosen->opcode, length, batch);  // everything that happens once
    measured_messages(&engines, chosen->opcode, length, batch, batches);
    std::printf("{\"crc32\": \"%s\", \"compiler\": \"%s\"}\n", urnic::wire::crc32_variant(), __VERSION__);
    return 0;
}
