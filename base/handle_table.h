// Objects by the handles that others know them by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>

namespace urnic {

/// The handles that a table hands out.
struct HandleRange {
    std::uint32_t first = 1;
    std::uint32_t last = std::numeric_limits<std::uint32_t>::max();
};

/// Objects of one kind, in the order of their handles, so that one can go over them in steps while others
/// come and go, and so that nothing but a look-up takes longer when there are many. Handles count up, so that
/// a stale one finds nothing; only after the last of the range do they begin again, with those that are free.
template <typename Object>
class HandleTable {
  public:
    HandleTable() = default;
    /// `total`: how many objects there are in several tables together. They keep it, and it lives longer.
    /// `start`: the first handle to hand out, for tests; 0: the first of the range.
    explicit HandleTable(std::uint32_t& total, HandleRange range = {}, std::uint32_t start = 0)
        : range_(range), next_(start != 0 ? start : range.first), total_(&total) {}
    HandleTable(const HandleTable&) = delete;
    HandleTable& operator=(const HandleTable&) = delete;
    ~HandleTable() { forget(objects_.size()); }
    /// The handle of the new object. There are fewer objects than handles.
    std::uint32_t add(std::unique_ptr<Object> object) {
        while (objects_.count(next_) != 0) {
            next_ = after(next_);
        }
        objects_.emplace(next_, std::move(object));
        if (total_ != nullptr) {
            ++*total_;
        }
        return std::exchange(next_, after(next_));
    }
    [[nodiscard]] Object* find(std::uint32_t handle) const {
        const auto found = objects_.find(handle);
        return found == objects_.end() ? nullptr : found->second.get();
    }
    void remove(std::uint32_t handle) { forget(objects_.erase(handle)); }
    /// Removes it, for who ends it; it is there.
    [[nodiscard]] std::unique_ptr<Object> take(std::uint32_t handle) {
        const auto found = objects_.find(handle);
        std::unique_ptr<Object> object = std::move(found->second);
        objects_.erase(found);
        forget(1);
        return object;
    }
    /// Removes while iterating: gives the next position.
    auto remove(typename std::map<std::uint32_t, std::unique_ptr<Object>>::iterator at) {
        forget(1);
        return objects_.erase(at);
    }
    [[nodiscard]] std::size_t size() const { return objects_.size(); }
    /// The position of the first object behind that handle, whether it is still one or not.
    [[nodiscard]] auto behind(std::uint32_t handle) const { return objects_.upper_bound(handle); }
    [[nodiscard]] auto begin() const { return objects_.begin(); }
    [[nodiscard]] auto end() const { return objects_.end(); }
    [[nodiscard]] auto begin() { return objects_.begin(); }
    [[nodiscard]] auto end() { return objects_.end(); }

  private:
    [[nodiscard]] std::uint32_t after(std::uint32_t handle) const {
        return handle == range_.last ? range_.first : handle + 1;
    }
    void forget(std::size_t count) {
        if (total_ != nullptr) {
            *total_ -= static_cast<std::uint32_t>(count);
        }
    }

    std::map<std::uint32_t, std::unique_ptr<Object>> objects_;
    HandleRange range_;
    std::uint32_t next_ = range_.first;
    std::uint32_t* total_ = nullptr;
};

}  // namespace urnic
