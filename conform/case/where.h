// Where a script has a step, for messages. std::source_location is more than clang 14 knows.
#pragma once

namespace urnic::conform {

struct Where {
    const char* file;
    int line;
    static constexpr Where current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

}  // namespace urnic::conform
