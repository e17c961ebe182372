// What belongs to a client or to one of its contexts ends in steps: others have their turn in between,
// however many objects there are.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <utility>

#include "base/handle_table.h"

namespace urnic::daemon {

/// Objects that end together, so that one call of a worker, or one barrier, does for all of them. Few enough
/// for well below a millisecond.
inline constexpr std::size_t kObjectsPerStep = 64;

template <typename Object>
using Batch =
    boost::container::static_vector<decltype(std::declval<HandleTable<Object>&>().begin()), kObjectsPerStep>;

/// Places of the first objects of a table that are `ours`, `most` at most. Needs no memory.
template <typename Object, typename Ours>
[[nodiscard]] Batch<Object> next_batch(HandleTable<Object>& table, Ours ours,
                                       std::size_t most = kObjectsPerStep) {
    Batch<Object> batch;
    for (auto at = table.begin(); at != table.end() && batch.size() < most; ++at) {
        if (ours(*at->second)) {
            batch.push_back(at);
        }
    }
    return batch;
}

/// Calls `forget` with each object of a batch and removes it. Returns whether there was any.
template <typename Object, typename Forget>
bool remove_batch(HandleTable<Object>& table, const Batch<Object>& batch, Forget forget) {
    for (const auto at : batch) {
        forget(*at->second);
        table.remove(at);
    }
    return !batch.empty();
}

}  // namespace urnic::daemon
