// Writes one packet of each kind as pcap files, and the fields they were built from as JSON, for other
// programs to read back.
//
// usage: write_samples DIRECTORY
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "rnic/wire/dissect/describe.h"
#include "tests/support/capture_bytes.h"
#include "tests/support/packet_build.h"
#include "tests/support/packet_samples.h"

namespace urnic {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPayloadBytes = 64;

/// Every field's number, or its text where it is an address or bytes; the bytes of the payload.
Json expected_of(const test::Sample& sample) {
    Json layers = Json::array();
    for (const wire::Layer& layer : wire::describe(sample.packet)) {
        if (layer.name == "checks") {
            continue;
        }
        Json fields = Json::object();
        for (const wire::DescribedField& field : layer.fields) {
            fields[field.name] = field.is_number ? Json(field.number) : Json(field.text);
        }
        layers.push_back({{"name", layer.name}, {"fields", fields}});
    }
    return {{"name", sample.name}, {"payload_bytes", sample.payload.size()}, {"layers", layers}};
}

void write_link(const std::string& directory, const std::string& name, wire::LinkLayer link,
                const std::vector<test::Sample>& samples) {
    Json expected = Json::array();
    std::vector<test::CapturedPacket> packets;
    for (const test::Sample& sample : samples) {
        if (sample.packet.link != link) {
            continue;
        }
        std::vector<std::byte> bytes(wire::kMaxPacketBytes);
        bytes.resize(wire::build_packet(sample.packet, bytes));
        expected.push_back(expected_of(sample));
        packets.push_back({bytes, bytes.size(), packets.size() * 1000});
    }
    const std::string path = directory + "/" + name;
    const bool native = link == wire::LinkLayer::kInfiniBand;
    std::ofstream(path + ".pcap", std::ios::binary)
        << test::pcap_file(false, false, native ? 247 : 1, packets);
    // tshark 4.0 reads no pcap files of InfiniBand.
    std::ofstream erf(path + ".erf", std::ios::binary);
    for (const test::CapturedPacket& packet : packets) {
        erf << test::erf_record(native ? 21 : 2, 0, packet);
    }
    std::ofstream json(path + ".json");
    json << expected.dump(1);
    if (!json.flush()) {
        throw std::runtime_error("cannot write " + path);
    }
}

}  // namespace
}  // namespace urnic

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: write_samples DIRECTORY\n");
        return 2;
    }
    try {
        urnic::test::Random random;
        std::cout << random << '\n';
        const std::vector<urnic::test::Sample> samples =
            urnic::test::make_samples(random, urnic::kMostPayloadBytes);
        urnic::write_link(argv[1], "ethernet", urnic::wire::LinkLayer::kEthernet, samples);
        urnic::write_link(argv[1], "infiniband", urnic::wire::LinkLayer::kInfiniBand, samples);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "write_samples: %s\n", error.what());
        return 1;
    }
    return 0;
}
