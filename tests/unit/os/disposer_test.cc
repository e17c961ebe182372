// What takes long to end does not keep its owner.
#include "os/disposer.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

namespace urnic {
namespace {

struct Slow : Disposable {
    Slow(std::shared_future<void> gate, std::vector<int>& list, int value)
        : may_end(std::move(gate)), ended(list), number(value) {}
    ~Slow() override {
        may_end.wait();
        ended.push_back(number);
    }
    std::shared_future<void> may_end;
    std::vector<int>& ended;
    int number = 0;
};

TEST(Disposer, EndsValuesInOrderOnAThreadOfItsOwn) {
    std::promise<void> gate;
    const std::shared_future<void> may_end = gate.get_future().share();
    std::vector<int> ended;
    {
        Disposer disposer;
        for (int i = 0; i < 10; ++i) {
            disposer.take(std::make_unique<Slow>(may_end, ended, i));  // would wait for ever here
        }
        gate.set_value();
    }
    EXPECT_EQ(ended, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace urnic
