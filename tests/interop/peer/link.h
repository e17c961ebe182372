// The TCP connection between the two sides of `peer`: what they tell each other about their queue pairs, and
// barriers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace urnic::interop {

class Link {
  public:
    /// Waits for the other side on `port`. Throws std::runtime_error when it does not come.
    static Link listen(int port);
    /// Throws std::runtime_error when nobody listens there.
    static Link connect(const std::string& host, int port);

    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    Link(Link&& other) noexcept;
    Link& operator=(Link&&) = delete;
    ~Link();

    /// Gives the other side a value of ours and returns its own. Both are of one machine's layout.
    template <typename T>
    T exchange(const T& mine) {
        put(std::as_bytes(std::span(&mine, 1)));
        T theirs{};
        get(std::as_writable_bytes(std::span(&theirs, 1)));
        return theirs;
    }
    /// Returns when the other side has come to the barrier of the same name. Throws when it is at another
    /// one, or gone.
    void meet(std::string_view where);

  private:
    explicit Link(int fd) : fd_(fd) {}
    void put(std::span<const std::byte> bytes) const;
    void get(std::span<std::byte> bytes) const;
    int fd_;
};

}  // namespace urnic::interop
