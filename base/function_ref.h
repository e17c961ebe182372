// A reference to something callable, for calls that return before it dies. Unlike std::function it never
// allocates, so what takes one works without memory too.
#pragma once

#include <memory>
#include <type_traits>

namespace urnic {

class FunctionRef {
  public:
    template <typename F>
    // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload)
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F&& function)
        : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
          call_([](void* object) { (*static_cast<std::remove_reference_t<F>*>(object))(); }) {}

    void operator()() const { call_(object_); }

  private:
    void* object_;
    void (*call_)(void*);
};

}  // namespace urnic
