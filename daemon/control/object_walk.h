// Going over what clients have, some objects at a time, while clients and objects come and go in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// The client with the lowest id that is not below `id`, of those that somebody may see; nullptr: none.
using ClientFrom = std::function<const ClientState*(std::uint32_t id)>;

/// Where something is that goes over one table of each client, or over several tables.
struct ObjectPosition {
    std::uint32_t client_id = 0;  // of that one or the next
    std::uint32_t handle = 0;     // of the last object visited
    std::size_t table = 0;        // for those who have several
};

/// Calls visit(client, object) for the next objects of table_of(client), a HandleTable, or nullptr: it has
/// none. Objects and clients are `most` at most together. Returns whether there may be more.
template <typename TableOf, typename Visit>
[[nodiscard]] bool visit_some(const ClientFrom& client_from, std::size_t most, ObjectPosition& at,
                              const TableOf& table_of, const Visit& visit) {
    for (;; --most) {
        const ClientState* const client = client_from(at.client_id);
        if (client == nullptr) {
            return false;
        }
        if (client->id != at.client_id) {
            at.client_id = client->id;
            at.handle = 0;
        }
        if (const auto* const table = table_of(*client); table != nullptr) {
            for (auto next = table->behind(at.handle); next != table->end(); ++next, --most) {
                if (most == 0) {
                    return true;
                }
                visit(*client, *next->second);
                at.handle = next->first;
            }
        }
        ++at.client_id;
        at.handle = 0;
        if (most == 0 || at.client_id == 0) {
            return at.client_id != 0;
        }
    }
}

/// A visitor has enter(client), visit(client, object, index of its table), leave_table(index), and
/// leave(index): of the client, in that table, or behind the last.
class ObjectWalk {
  public:
    /// Those that a status lists come first.
    static constexpr std::tuple kTables{&ClientState::qps,  &ClientState::xrc_targets, &ClientState::cqs,
                                        &ClientState::srqs, &ClientState::mrs,         &ClientState::pds,
                                        &ClientState::ahs,  &ClientState::mws,         &ClientState::dms,
                                        &ClientState::xrcds};
    static constexpr std::size_t kNumTables = std::tuple_size_v<decltype(kTables)>;

    /// Over the first `num_tables` of each client.
    explicit ObjectWalk(std::size_t num_tables) : num_tables_(num_tables) {}

    /// Visits the next objects and clients, at most `most` together. Returns whether there may be more.
    template <typename Visitor>
    bool go_on(const ClientFrom& client_from, std::size_t most, Visitor& visitor) {
        while (most > 0) {
            const ClientState* const client = is_over_ ? nullptr : client_from(client_id_);
            if (is_inside_ && (client == nullptr || client->id != client_id_)) {
                leave(visitor);  // it has ended
                continue;
            }
            if (client == nullptr) {
                return false;
            }
            if (!is_inside_) {
                is_inside_ = true;
                client_id_ = client->id;
                visitor.enter(*client);
                --most;
            }
            most -= visit_table(*client, most, visitor, std::make_index_sequence<kNumTables>());
        }
        return true;
    }

  private:
    /// Returns how many objects it visited, of the table where it is.
    template <typename Visitor, std::size_t... kIndex>
    std::size_t visit_table(const ClientState& client, std::size_t most, Visitor& visitor,
                            std::index_sequence<kIndex...> /*of kTables*/) {
        std::size_t visited = 0;
        const auto visit_some = [&](const auto& objects) {
            auto at = objects.behind(handle_);
            for (; at != objects.end() && visited < most; ++at, ++visited) {
                visitor.visit(client, *at->second, table_);
                handle_ = at->first;
            }
            return at == objects.end();
        };
        bool is_whole = false;
        (void)((kIndex == table_ && (is_whole = visit_some(client.*std::get<kIndex>(kTables)), true)) || ...);
        if (is_whole) {
            visitor.leave_table(table_);
            handle_ = 0;
            ++table_;
            if (table_ == num_tables_) {
                leave(visitor);
            }
        }
        return visited;
    }
    template <typename Visitor>
    void leave(Visitor& visitor) {
        visitor.leave(table_);
        is_inside_ = false;
        table_ = 0;
        handle_ = 0;
        ++client_id_;
        is_over_ = client_id_ == 0;
    }

    std::size_t num_tables_;
    std::uint32_t client_id_ = 0;  // where it is, if it is inside; otherwise that one or the next
    std::size_t table_ = 0;
    std::uint32_t handle_ = 0;  // of the last object visited
    bool is_inside_ = false;
    bool is_over_ = false;  // there is no client behind the last id
};

}  // namespace urnic::daemon
