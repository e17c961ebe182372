#include "ulp/rpcrdma/onc/ddp_table.h"

#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <tuple>

namespace urnic::rpcrdma::onc {

namespace {

using ProcedureKey = std::tuple<rpcprog_t, rpcvers_t, rpcproc_t>;

struct DdpTable {
    std::shared_mutex mutex;
    // Entries are replaced, not changed: calls in progress keep theirs.
    std::map<ProcedureKey, std::shared_ptr<const ProcedureItems>> procedures;
};

DdpTable& ddp_table() {
    static DdpTable table;
    return table;
}

bool is_valid_item(const rpcrdma_onc_item& item) {
    const bool has_place = item.side == RPCRDMA_ONC_ARGUMENT_IN_PLACE && item.locate == nullptr;
    return item.side == RPCRDMA_ONC_ARGUMENT || item.side == RPCRDMA_ONC_RESULT || has_place;
}

void add_item(std::map<ProcedureKey, std::shared_ptr<ProcedureItems>>& changed,
              const rpcrdma_onc_item& item) {
    const ProcedureKey key{item.program, item.version, item.procedure};
    auto& procedure = changed[key];
    if (!procedure) {
        const auto present = ddp_table().procedures.find(key);
        procedure = present == ddp_table().procedures.end()
                        ? std::make_shared<ProcedureItems>()
                        : std::make_shared<ProcedureItems>(*present->second);
    }
    (item.side == RPCRDMA_ONC_RESULT ? procedure->results : procedure->arguments).push_back(item);
}

int add_items(std::span<const rpcrdma_onc_item> items) {
    const std::unique_lock lock(ddp_table().mutex);
    std::map<ProcedureKey, std::shared_ptr<ProcedureItems>> changed;
    for (const rpcrdma_onc_item& item : items) {
        if (!is_valid_item(item)) {
            return EINVAL;
        }
        add_item(changed, item);
    }
    for (const auto& [key, procedure] : changed) {
        if (procedure->arguments.size() > RPCRDMA_MAX_ITEMS ||
            procedure->results.size() > RPCRDMA_MAX_ITEMS) {
            return EINVAL;
        }
    }
    for (const auto& [key, procedure] : changed) {
        ddp_table().procedures[key] = procedure;
    }
    return 0;
}

}  // namespace

std::shared_ptr<const ProcedureItems> find_items(rpcprog_t program, rpcvers_t version, rpcproc_t procedure) {
    static const auto nothing = std::make_shared<const ProcedureItems>();
    const std::shared_lock lock(ddp_table().mutex);
    const auto found = ddp_table().procedures.find({program, version, procedure});
    return found == ddp_table().procedures.end() ? nothing : found->second;
}

char** place_of_data(const rpcrdma_onc_item& item, void* object) {
    if (object == nullptr) {
        return nullptr;
    }
    return item.locate != nullptr ? item.locate(object)
                                  : reinterpret_cast<char**>(static_cast<char*>(object) + item.offset);
}

const char* data_pointer(const rpcrdma_onc_item& item, void* object) {
    char** const place = place_of_data(item, object);
    return place == nullptr ? nullptr : *place;
}

std::uint32_t result_room(const rpcrdma_onc_item& item, const void* arguments) {
    return item.room != nullptr ? item.room(arguments) : item.max_octets;
}

}  // namespace urnic::rpcrdma::onc

int rpcrdma_onc_ddp(const rpcrdma_onc_item* items, size_t count) {
    if (items == nullptr && count != 0) {
        return EINVAL;
    }
    try {
        return urnic::rpcrdma::onc::add_items(std::span(items, count));
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}
