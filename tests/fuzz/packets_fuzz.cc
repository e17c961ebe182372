// Packet sequences against live QPs: the wire loses, doubles, reorders, changes and makes up packets, all
// with good ICRCs; the applications keep the rules, so that every completion can be told right from wrong.
#include "tests/fuzz/qp_script.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using urnic::fuzz::QpScript;
    urnic::fuzz::Input input(data, size);
    QpScript(input, QpScript::Hostile::kWire).run();
    return 0;
}
