#include "rnic/subnet/sm_info_agent.h"

#include <cstring>

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

constexpr std::size_t kSmInfoData = 64;
constexpr std::size_t kSmInfoDataBytes = 64;

}  // namespace

bool answer_sm_info(MadRef mad, const mad::SmInfo& own) {
    // A Trap and its TrapRepress are answered by nobody.
    if (!mad.is_subnet_management() || mad.attribute_id() != mad::kSmInfo || mad.is_response() ||
        mad.method() == wire::kMadTrap || mad.method() == wire::kMadTrapRepress) {
        return false;
    }
    if (mad.base_version() != kBaseVersion || mad.class_version() != kSubnetClassVersion) {
        make_response(mad, kStatusBadVersion);
        return true;
    }
    if (mad.method() != wire::kMadGet && mad.method() != wire::kMadSet) {
        make_response(mad, kStatusBadMethod);
        return true;
    }
    const bool is_set = mad.method() == wire::kMadSet;
    std::memset(mad.at(kSmInfoData), 0, kSmInfoDataBytes);
    mad.write(mad::kSmInfoTable, kSmInfoData, own);
    make_response(mad, is_set ? kStatusBadValue : kStatusGood);
    return true;
}

}  // namespace urnic::subnet
