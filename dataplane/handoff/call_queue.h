// Calls from the control thread to a worker.
#pragma once

#include <memory>

#include "base/function_ref.h"

namespace urnic::dataplane {

/// One producer (the control thread), one consumer (the worker).
class CallQueue {
  public:
    CallQueue();
    ~CallQueue();
    CallQueue(const CallQueue&) = delete;
    CallQueue& operator=(const CallQueue&) = delete;

    /// Producer: leaves `function` for the worker, calls `wake`, and returns when the function has run.
    void call(FunctionRef function, FunctionRef wake);

    /// Consumer: the next function to run, or nullptr. finish() must follow.
    [[nodiscard]] const FunctionRef* next();
    void finish();

  private:
    struct Call;
    struct Queue;
    std::unique_ptr<Queue> queue_;
    Call* current_ = nullptr;
};

}  // namespace urnic::dataplane
