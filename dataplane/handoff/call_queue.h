// Calls from the control thread to a worker.
#pragma once

#include <memory>

#include "base/function_ref.h"

namespace urnic::dataplane {

/// One producer (the control thread), one consumer (the worker).
class Mailbox {
  public:
    Mailbox();
    ~Mailbox();
    Mailbox(const Mailbox&) = delete;
    Mailbox& operator=(const Mailbox&) = delete;

    /// Producer: leaves `function` for the worker, calls `wake`, and returns when the function has run.
    void call(FunctionRef function, FunctionRef wake);

    /// Consumer: the next function to run, or nullptr. finish() must follow.
    [[nodiscard]] const FunctionRef* next();
    void finish();

  private:
    struct Letter;
    struct Queue;
    std::unique_ptr<Queue> queue_;
    Letter* current_ = nullptr;
};

}  // namespace urnic::dataplane
