// A sorted index of connections whose changes need no memory: every connection brings its entry along when it
// is made.
#pragma once

#include <map>
#include <utility>

#include "rnic/cm/types.h"

namespace urnic::cm {

template <class Key>
class Index {
    using Map = std::map<Key, Handle>;

  public:
    /// A connection's place: in the index or out of it.
    class Entry {
      public:
        /// Allocates; throws std::bad_alloc.
        Entry() : node_(make_node()) {}
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;
        [[nodiscard]] bool is_in() const { return node_.empty(); }

      private:
        friend class Index;
        static typename Map::node_type make_node() {
            Map map;
            map.emplace(Key{}, Handle{0});
            return map.extract(map.begin());
        }
        typename Map::node_type node_;
        typename Map::iterator at_;
    };

    /// Moves the entry to `key`, from another if need be. Returns whether the key was free; if not, the entry
    /// is out.
    bool put(Entry& entry, const Key& key, Handle handle) {
        remove(entry);
        entry.node_.key() = key;
        entry.node_.mapped() = handle;
        auto result = map_.insert(std::move(entry.node_));
        if (!result.inserted) {
            entry.node_ = std::move(result.node);
            return false;
        }
        entry.at_ = result.position;
        return true;
    }
    void remove(Entry& entry) {
        if (entry.is_in()) {
            entry.node_ = map_.extract(entry.at_);
        }
    }
    /// 0: there is none.
    [[nodiscard]] Handle find(const Key& key) const {
        const auto found = map_.find(key);
        return found == map_.end() ? 0 : found->second;
    }
    [[nodiscard]] bool empty() const { return map_.empty(); }
    [[nodiscard]] std::size_t size() const { return map_.size(); }
    /// The entry with the least key; there has to be one.
    [[nodiscard]] const Key& first_key() const { return map_.begin()->first; }
    [[nodiscard]] Handle first() const { return map_.begin()->second; }

  private:
    Map map_;
};

}  // namespace urnic::cm
