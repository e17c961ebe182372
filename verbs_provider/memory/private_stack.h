// Runs a function on a stack of its own, with signals held off.
//
// Pages are moved there because the caller may run on a stack that shares pages with the range (a
// coroutine's, say): neither its frames nor a signal handler may touch the range until the move is done. A
// thread would do as well and costs 18 us more.
#pragma once

#include <cstddef>

namespace urnic::memory {

class PrivateStack {
  public:
    PrivateStack() = default;
    PrivateStack(const PrivateStack&) = delete;
    PrivateStack& operator=(const PrivateStack&) = delete;

    /// Runs `function(argument)` and returns its answer; one call at a time. The function must use raw system
    /// calls only. -ENOMEM when there is no memory for the stack: the function has not run.
    int run(int (*function)(void*), void* argument);

  private:
    static constexpr std::size_t kStackBytes = 256UL * 1024;
    static void main(PrivateStack* self);

    std::byte* stack_ = nullptr;
    int (*function_)(void*) = nullptr;
    void* argument_ = nullptr;
    int result_ = 0;
};

}  // namespace urnic::memory
