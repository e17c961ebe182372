#include "os/disposer.h"

#include <semaphore>
#include <utility>

#include "os/thread.h"

namespace urnic {

namespace {

/// What is done when it ends.
class Errand final : public Disposable {
  public:
    Errand(FunctionRef function, std::binary_semaphore& done) : function_(function), done_(done) {}
    Errand(const Errand&) = delete;
    Errand& operator=(const Errand&) = delete;
    ~Errand() override {
        function_();
        done_.release();
    }

  private:
    FunctionRef function_;
    std::binary_semaphore& done_;
};

}  // namespace

Disposer::Disposer() : thread_(start_thread([this] { run(); })) {}

Disposer::~Disposer() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void Disposer::take(std::unique_ptr<Disposable> value) {
    if (value == nullptr) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        Disposable* const added = value.get();
        if (first_ == nullptr) {
            first_ = std::move(value);
        } else {
            last_->next_ = std::move(value);
        }
        last_ = added;
    }
    wake_.notify_one();
}

void Disposer::call(FunctionRef function) {
    std::binary_semaphore done{0};
    take(std::make_unique<Errand>(function, done));
    done.acquire();
}

void Disposer::run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ || first_ != nullptr) {
        wake_.wait(lock, [this] { return stopping_ || first_ != nullptr; });
        std::unique_ptr<Disposable> value = std::move(first_);
        if (value != nullptr) {
            first_ = std::move(value->next_);
        }
        lock.unlock();
        value.reset();
        lock.lock();
    }
}

}  // namespace urnic
