// Takes the first steps of a request back when a later one fails, whether by an error or by an exception.
#pragma once

#include <utility>

namespace urnic {

/// Runs its function, which must not fail, at the end of its scope unless keep() was called.
template <typename Function>
class Rollback {
  public:
    explicit Rollback(Function function) : function_(std::move(function)) {}
    Rollback(const Rollback&) = delete;
    Rollback& operator=(const Rollback&) = delete;
    ~Rollback() {
        if (!kept_) {
            function_();
        }
    }
    void keep() { kept_ = true; }

  private:
    Function function_;
    bool kept_ = false;
};

}  // namespace urnic
