// Sequences of operations of applications that keep no rule: garbage in the rings, before and after it was
// taken, and in attributes, keys that come and go, memory that is gone.
#include "tests/fuzz/qp_script.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using urnic::fuzz::QpScript;
    urnic::fuzz::Input input(data, size);
    QpScript(input, QpScript::Hostile::kApplication).run();
    return 0;
}
