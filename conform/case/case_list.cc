#include "conform/case/case_list.h"

namespace urnic::conform {

std::vector<Case>& case_list() {
    static std::vector<Case> list;
    return list;
}

bool add_case(const Case& entry) {
    case_list().push_back(entry);
    return true;
}

}  // namespace urnic::conform
