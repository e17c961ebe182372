// Every RC operation with verified payload while the wire loses, reorders, doubles and damages packets, and
// faults that hit one packet alone. Runs under `urnic run --standalone`; faults are set with `urnic fault`.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

/// What `urnic ARGUMENTS` prints; fails the test when it fails.
std::string urnic(const std::string& arguments) {
    const char* build = std::getenv("URNIC_BUILD");
    const std::string command = std::string(build != nullptr ? build : "build") + "/urnic " + arguments;
    FILE* const out = popen(command.c_str(), "r");
    std::string text;
    for (int c = fgetc(out); c != EOF; c = fgetc(out)) {
        text.push_back(static_cast<char>(c));
    }
    EXPECT_EQ(pclose(out), 0) << command;
    return text;
}

nlohmann::json faults() { return nlohmann::json::parse(urnic("fault list --json"))["faults"]; }

std::uint64_t counter(std::size_t device, const char* name) {
    return nlohmann::json::parse(urnic("status --json"))["devices"][device]["counters"][name];
}

class Faults : public testing::Test {
  public:
    Faults() { urnic("fault clear"); }
    ~Faults() override { urnic("fault clear"); }
};

/// Operations on slots of two endpoints' buffers, a batch at a time: all are posted, then all are awaited and
/// everything they should have done is compared.
class Traffic {
  public:
    static constexpr std::size_t kBatch = 16;
    static constexpr std::size_t kSlotBytes = 192U << 10U;
    static constexpr std::size_t kAtomics = kBatch * kSlotBytes;  // offset of the targets
    static constexpr std::size_t kBufferBytes = kAtomics + 4096;

    Traffic(ibv_mtu mtu, std::uint32_t seed)
        : random_(seed),
          mtu_bytes_(128U << static_cast<unsigned>(mtu)),
          a_("urnic0", {.buffer_bytes = kBufferBytes}),
          b_("urnic1", {.buffer_bytes = kBufferBytes}) {
        // 17 ms: lost acknowledgements do not make the test long, and a busy machine answers in time.
        connect(a_, b_, {.mtu = mtu, .timeout = 12});
    }

    void batch() {
        std::vector<Operation> operations(kBatch);
        for (std::size_t slot = 0; slot < kBatch; ++slot) {
            prepare(slot, operations[slot]);
        }
        for (std::size_t slot = 0; slot < kBatch; ++slot) {
            post(slot, operations[slot]);
        }
        for (std::size_t slot = 0; slot < kBatch; ++slot) {
            const ibv_wc completion = a_.poll_one();
            ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
            ASSERT_EQ(completion.wr_id, slot);
        }
        for (std::size_t slot = 0; slot < kBatch; ++slot) {
            verify(slot, operations[slot]);
        }
        std::uint64_t sum = 0;
        std::memcpy(&sum, b_.at(kAtomics), sizeof sum);
        ASSERT_EQ(sum, added_) << "an atomic was executed twice, or not";
    }

  private:
    enum class Kind : std::uint32_t { kWrite, kWriteImm, kSend, kRead, kFetchAdd };

    struct Operation {
        Kind kind = Kind::kWrite;
        std::size_t length = 0;
        std::uint32_t seed = 0;
        std::uint64_t add = 0;
        std::uint64_t before = 0;  // what an atomic must return
    };

    [[nodiscard]] std::size_t random_length() {
        const std::size_t boundary = mtu_bytes_ * (random_() % 4);
        const std::size_t lengths[] = {random_() % 64,    boundary,
                                       boundary + 1,      boundary + mtu_bytes_ - 1,
                                       random_() % 16384, random_() % (kSlotBytes - 64)};
        return lengths[random_() % std::size(lengths)];
    }

    void prepare(std::size_t slot, Operation& operation) {
        operation.kind = static_cast<Kind>(random_() % 5);
        operation.seed = static_cast<std::uint32_t>(random_());
        operation.length = operation.kind == Kind::kFetchAdd ? 8 : random_length();
        const bool reads = operation.kind == Kind::kRead;
        fill((reads ? b_ : a_).at(slot * kSlotBytes), operation.length, operation.seed);
        std::memset((reads ? a_ : b_).at(slot * kSlotBytes), 0xee, operation.length + 64);
        if (operation.kind == Kind::kFetchAdd) {
            operation.add = random_() % 1000;
            operation.before = added_;
            added_ += operation.add;
        }
        if (operation.kind == Kind::kSend) {
            b_.post_recv(slot, {b_.sge(slot * kSlotBytes, operation.length)});
        } else if (operation.kind == Kind::kWriteImm) {
            b_.post_recv(slot, {});
        }
    }

    void post(std::size_t slot, const Operation& operation) {
        constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
                                              IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
        const ibv_wr_opcode opcode = kOpcodes[static_cast<std::size_t>(operation.kind)];
        ibv_sge sge = a_.sge(slot * kSlotBytes, operation.length);
        ibv_send_wr wr = operation.kind == Kind::kFetchAdd
                             ? atomic(opcode, slot, &sge, b_, kAtomics, operation.add)
                             : rdma(opcode, slot, &sge, 1, b_, slot * kSlotBytes);
        if (operation.kind == Kind::kSend) {
            wr = request(opcode, slot, &sge, 1);
        }
        wr.imm_data = operation.seed;
        a_.post(wr);
    }

    void verify(std::size_t slot, const Operation& operation) {
        if (operation.kind == Kind::kFetchAdd) {
            std::uint64_t before = 0;
            std::memcpy(&before, a_.at(slot * kSlotBytes), sizeof before);
            ASSERT_EQ(before, operation.before);
            return;
        }
        if (operation.kind == Kind::kSend || operation.kind == Kind::kWriteImm) {
            const ibv_wc completion = b_.poll_one();
            ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
            ASSERT_EQ(completion.wr_id, slot);
            ASSERT_EQ(completion.byte_len, operation.length);
            ASSERT_EQ((completion.wc_flags & IBV_WC_WITH_IMM) != 0, operation.kind == Kind::kWriteImm);
        }
        const Endpoint& target = operation.kind == Kind::kRead ? a_ : b_;
        const std::uint8_t* const data = target.at(slot * kSlotBytes);
        ASSERT_EQ(first_difference(data, operation.length, operation.seed), -1)
            << "kind " << static_cast<int>(operation.kind) << " length " << operation.length;
        ASSERT_EQ(first_other(data + operation.length, 64, 0xee), -1) << "written behind the end";
    }

    std::mt19937_64 random_;
    std::size_t mtu_bytes_;
    Endpoint a_, b_;
    std::uint64_t added_ = 0;
};

struct FaultSet {
    const char* name;
    std::vector<const char*> faults;
    int batches;  // of each path MTU
};

const FaultSet kSets[] = {
    {"Loss1", {"drop --probability 0.01 --seed 1"}, 24},
    {"Loss10", {"drop --probability 0.1 --seed 2"}, 8},
    {"Reorder5", {"reorder --probability 0.05 --packets 3 --seed 3"}, 24},
    {"Duplicate1",
     {"duplicate --probability 0.01 --seed 4", "duplicate --probability 0.01 --delay-us 200 --seed 5"},
     24},
    {"Corrupt01", {"corrupt --probability 0.001 --seed 6"}, 60},
    {"Delay", {"delay --probability 0.05 --delay-us 300 --seed 7", "ecn --probability 0.1 --seed 8"}, 24},
    {"All",
     {"drop --probability 0.1 --seed 9", "reorder --probability 0.05 --packets 2 --seed 10",
      "duplicate --probability 0.01 --seed 11", "corrupt --probability 0.001 --seed 12",
      "drop --probability 0.01 --seed 13"},
     8},
};

class FaultTraffic : public Faults, public testing::WithParamInterface<FaultSet> {};

TEST_P(FaultTraffic, ArrivesWholeAndOnce) {
    for (const char* fault : GetParam().faults) {
        urnic(std::string("fault add ") + fault);
    }
    for (const ibv_mtu mtu : {IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096}) {
        Traffic traffic(mtu, 1000 + mtu);
        for (int i = 0; i < GetParam().batches && !HasFatalFailure(); ++i) {
            traffic.batch();
        }
    }
    for (const auto& fault : faults()) {
        EXPECT_GT(fault["hits"], 0) << fault;
        EXPECT_EQ(fault["missed"], 0) << fault;
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, FaultTraffic, testing::ValuesIn(kSets),
                         [](const auto& info) { return std::string(info.param.name); });

/// Two QPs whose packets can be told by their PSNs.
class FaultRule : public Faults {
  public:
    static constexpr std::uint32_t kPsn = 0x1000;

    /// A patient pair: within 2^18 * 4.096 us, a second, nothing is sent twice without a reason.
    void make(std::uint8_t timeout = 18) {
        a = std::make_unique<Endpoint>("urnic0");
        b = std::make_unique<Endpoint>("urnic1");
        connect(*a, *b, {.timeout = timeout, .psn_a = kPsn});
    }
    void add(const std::string& fault) const {
        urnic("fault add " + fault + " --qpn " + std::to_string(b->qp->qp_num));
    }
    void write(std::uint32_t seed, std::size_t length = 1000) const {
        fill(a->at(0), length, seed);
        ibv_sge sge = a->sge(0, length);
        ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, seed, &sge, 1, *b, 0);
        a->post(wr);
        a->expect_success(seed, IBV_WC_RDMA_WRITE);
        EXPECT_EQ(first_difference(b->at(0), length, seed), -1);
    }
    std::unique_ptr<Endpoint> a, b;
};

TEST_F(FaultRule, ALostPacketIsSentAgainOnce) {
    make();
    add("drop --psn " + std::to_string(kPsn + 1) + " --iter 1");
    const std::uint64_t sent = counter(0, "sent_pkts");
    const std::uint64_t timeouts = counter(0, "local_ack_timeout_err");
    write(1);
    write(2);
    write(3);
    EXPECT_EQ(counter(0, "sent_pkts") - sent, 4U) << "three requests, one of them again";
    EXPECT_EQ(counter(0, "local_ack_timeout_err") - timeouts, 1U);
    const auto list = faults();
    ASSERT_EQ(list.size(), 1U);
    EXPECT_EQ(list[0]["hits"], 1);
    EXPECT_EQ(list[0]["seen"], 2) << "lost, then again";
}

TEST_F(FaultRule, TheNthSendingOfAPacketIsLost) {
    make(14);
    add("drop --psn " + std::to_string(kPsn) + " --count 3");
    const std::uint64_t timeouts = counter(0, "local_ack_timeout_err");
    write(1);
    EXPECT_EQ(faults()[0]["hits"], 3);
    EXPECT_EQ(faults()[0]["seen"], 4);
    EXPECT_EQ(counter(0, "local_ack_timeout_err") - timeouts, 3U);
}

TEST_F(FaultRule, ACorruptedPacketIsCountedAndSentAgain) {
    make();
    add("corrupt --offset payload --iter 1");
    const std::uint64_t bad = counter(1, "rx_icrc_encapsulated");
    write(1);
    EXPECT_EQ(counter(1, "rx_icrc_encapsulated") - bad, 1U);
    EXPECT_EQ(faults()[0]["hits"], 1);
}

TEST_F(FaultRule, ADuplicateIsAnsweredAndNotExecuted) {
    make();
    add("duplicate --opcode 'RC FetchAdd' --count 1");
    const std::uint64_t duplicates = counter(1, "duplicate_request");
    std::memset(b->at(0), 0, 8);
    ibv_sge sge = a->sge(64, 8);
    ibv_send_wr wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 5, &sge, *b, 0, 7);
    a->post(wr);
    a->expect_success(5, IBV_WC_FETCH_ADD);
    write(6, 0);
    std::uint64_t sum = 0;
    std::memcpy(&sum, b->at(0), sizeof sum);
    EXPECT_EQ(sum, 7U);
    EXPECT_EQ(counter(1, "duplicate_request") - duplicates, 1U);
    EXPECT_EQ(faults()[0]["hits"], 1);
}

TEST_F(FaultRule, AMarkedPacketArrives) {
    make();
    add("ecn");
    const std::uint64_t sent = counter(0, "sent_pkts");
    write(1, 100'000);
    EXPECT_EQ(counter(0, "sent_pkts") - sent, 25U);
    EXPECT_EQ(faults()[0]["hits"], 25);
}

TEST_F(FaultRule, ADelayedPacketComesThoughNothingElseHappens) {
    make();
    add("delay --delay-us 200000 --count 1");
    const std::uint64_t timeouts = counter(0, "local_ack_timeout_err");
    const auto start = std::chrono::steady_clock::now();
    write(1);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200));
    EXPECT_EQ(counter(0, "local_ack_timeout_err"), timeouts) << "it was sent again instead";
}

TEST_F(FaultRule, RemovedFaultsAreGone) {
    make(14);
    add("drop");
    add("drop --count 1");
    const auto list = faults();
    urnic("fault remove " + std::to_string(list[0]["id"].get<int>()));
    write(1);
    EXPECT_EQ(faults()[0]["hits"], 1);
    urnic("fault clear");
    write(2);
    EXPECT_TRUE(faults().empty());
}

}  // namespace
}  // namespace urnic::e2e
