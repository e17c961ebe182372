// Objects by the handles that others know them by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

namespace urnic {

/// Objects of one kind by handle. Handles count up and are not reused, so a stale one finds nothing.
template <typename Object>
class HandleTable {
  public:
    HandleTable() = default;
    /// `total`: how many objects there are in several tables together. They keep it, and it lives longer.
    /// `first`: the first handle to hand out.
    explicit HandleTable(std::uint32_t& total, std::uint32_t first = 1) : next_(first), total_(&total) {}
    HandleTable(const HandleTable&) = delete;
    HandleTable& operator=(const HandleTable&) = delete;
    ~HandleTable() { forget(objects_.size()); }
    /// The handle of the new object; never 0.
    std::uint32_t add(std::unique_ptr<Object> object) {
        while (next_ == 0 || objects_.count(next_) != 0) {
            ++next_;
        }
        objects_.emplace(next_, std::move(object));
        if (total_ != nullptr) {
            ++*total_;
        }
        return next_++;
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
    auto remove(typename std::unordered_map<std::uint32_t, std::unique_ptr<Object>>::iterator at) {
        forget(1);
        return objects_.erase(at);
    }
    [[nodiscard]] std::size_t size() const { return objects_.size(); }
    [[nodiscard]] auto begin() const { return objects_.begin(); }
    [[nodiscard]] auto end() const { return objects_.end(); }
    [[nodiscard]] auto begin() { return objects_.begin(); }
    [[nodiscard]] auto end() { return objects_.end(); }

  private:
    void forget(std::size_t count) {
        if (total_ != nullptr) {
            *total_ -= static_cast<std::uint32_t>(count);
        }
    }

    std::unordered_map<std::uint32_t, std::unique_ptr<Object>> objects_;
    std::uint32_t next_ = 1;
    std::uint32_t* total_ = nullptr;
};

}  // namespace urnic
