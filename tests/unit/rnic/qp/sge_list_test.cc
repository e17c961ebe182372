#include "rnic/qp/sge_list.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace urnic {
namespace {

class SgeList : public ::testing::Test {
  protected:
    SgeList() {
        for (std::size_t i = 0; i < memory_.size(); ++i) {
            memory_[i] = static_cast<std::byte>(i);
        }
        MemoryRegion region;
        region.iova = addr(0);
        region.va = region.iova;
        region.length_bytes = memory_.size();
        region.direct = memory_.data();
        region.pd = 1;
        region.access = kAccessLocalWrite;
        key_ = keys_.add(region, 1234);
        region.access = 0;
        read_only_key_ = keys_.add(region, 99999);
    }
    [[nodiscard]] std::uint64_t addr(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(memory_.data()) + offset;
    }
    [[nodiscard]] abi::Sge sge(std::size_t offset, std::uint32_t length) const {
        return {addr(offset), length, key_};
    }
    std::vector<int> gathered(const std::vector<abi::Sge>& list, std::uint64_t offset, std::uint32_t length) {
        PieceList pieces;
        std::vector<int> result;
        if (!gather(keys_, 1, 0, list, offset, length, pieces)) {
            return {-1};
        }
        for (const MemoryPiece& piece : pieces.span()) {
            for (std::uint32_t i = 0; i < piece.length_bytes; ++i) {
                result.push_back(static_cast<int>(piece.direct[i]));
            }
        }
        return result;
    }

    KeyTable keys_;
    std::vector<std::byte> memory_ = std::vector<std::byte>(200);
    std::uint32_t key_ = 0;
    std::uint32_t read_only_key_ = 0;
};

TEST_F(SgeList, GathersFromAnyOffset) {
    const std::vector<abi::Sge> list = {sge(0, 3), sge(50, 0), sge(100, 2)};
    EXPECT_EQ(gathered(list, 0, 5), (std::vector<int>{0, 1, 2, 100, 101}));
    EXPECT_EQ(gathered(list, 2, 2), (std::vector<int>{2, 100}));
    EXPECT_EQ(gathered(list, 3, 2), (std::vector<int>{100, 101}));
    EXPECT_EQ(gathered(list, 4, 1), (std::vector<int>{101}));
    EXPECT_EQ(gathered(list, 5, 0), (std::vector<int>{}));
}

TEST_F(SgeList, EndsWithTheList) {
    EXPECT_EQ(gathered({sge(0, 3)}, 0, 4), (std::vector<int>{-1}));
    EXPECT_EQ(gathered({sge(0, 3)}, 4, 1), (std::vector<int>{-1}));
    EXPECT_EQ(gathered({}, 0, 1), (std::vector<int>{-1}));
}

TEST_F(SgeList, ChecksKeysOnlyOfWhatItTouches) {
    const std::vector<abi::Sge> list = {sge(0, 3), {addr(0), 3, 0xbad}};
    EXPECT_EQ(gathered(list, 0, 3), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(gathered(list, 0, 4), (std::vector<int>{-1}));
    EXPECT_EQ(gathered({{addr(0), 0, 0xbad}, sge(7, 1)}, 0, 1), (std::vector<int>{7}));
}

TEST_F(SgeList, AddressesThatWrap) {
    EXPECT_EQ(gathered({{~0ULL - 1, 0xffff'ffff, key_}}, 1, 100), (std::vector<int>{-1}));
    EXPECT_EQ(gathered({{~0ULL - 1, 0xffff'ffff, key_}}, 0xffff'0000, 100), (std::vector<int>{-1}));
}

TEST_F(SgeList, Scatters) {
    const std::vector<abi::Sge> list = {sge(10, 2), sge(20, 2)};
    const std::byte data[] = {std::byte{0xa0}, std::byte{0xa1}};
    EXPECT_TRUE(scatter(keys_, 1, list, 1, data));
    EXPECT_EQ(memory_[10], std::byte{10});
    EXPECT_EQ(memory_[11], std::byte{0xa0});
    EXPECT_EQ(memory_[20], std::byte{0xa1});
    EXPECT_EQ(memory_[21], std::byte{21});
    EXPECT_FALSE(scatter(keys_, 1, list, 3, data));
    EXPECT_FALSE(scatter(keys_, 2, list, 0, data));
    const std::vector<abi::Sge> read_only = {{addr(30), 2, read_only_key_}};
    EXPECT_FALSE(scatter(keys_, 1, read_only, 0, data));
    EXPECT_EQ(memory_[30], std::byte{30});
}

TEST_F(SgeList, MayWriteAll) {
    EXPECT_TRUE(may_write_all(keys_, 1, {}));
    const std::vector<abi::Sge> good = {sge(0, 200), {0, 0, 0xbad}};
    EXPECT_TRUE(may_write_all(keys_, 1, good));
    const std::vector<abi::Sge> over = {sge(0, 201)};
    EXPECT_FALSE(may_write_all(keys_, 1, over));
    const std::vector<abi::Sge> read_only = {sge(0, 1), {addr(30), 2, read_only_key_}};
    EXPECT_FALSE(may_write_all(keys_, 1, read_only));
}

}  // namespace
}  // namespace urnic
