// Takes the first steps of a request back when a later one fails, whether by an error or by an exception.
#pragma once

#include <utility>

namespace urnic::dataplane {

/// Runs its function, which must not fail, at the end of its scope unless keep() was called.
template <typename Function>
class Undo {
  public:
    explicit Undo(Function function) : function_(std::move(function)) {}
    Undo(const Undo&) = delete;
    Undo& operator=(const Undo&) = delete;
    ~Undo() {
        if (!kept_) {
            function_();
        }
    }
    void keep() { kept_ = true; }

  private:
    Function function_;
    bool kept_ = false;
};

}  // namespace urnic::dataplane
