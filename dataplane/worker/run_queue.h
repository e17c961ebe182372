// Which QP has its turn on a worker: users share its time, within a user his programs, within a program its
// QPs.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "dataplane/worker/qp_slot.h"

namespace urnic::dataplane {

/// A member of a list that is served by deficit round robin (Shreedhar and Varghese, 1995): each turn is a
/// quantum long, and what somebody took beyond it goes off his next turns.
template <typename Member>
class TurnList {
  public:
    TurnList() = default;
    TurnList(const TurnList&) = delete;
    TurnList& operator=(const TurnList&) = delete;

    [[nodiscard]] bool empty() const { return first_ == nullptr; }
    [[nodiscard]] Member& front() const { return *first_; }

    void push(Member& member) {
        member.next_in_turn = nullptr;
        *end_ = &member;
        end_ = &member.next_in_turn;
    }
    void pop() {
        first_ = first_->next_in_turn;
        end_ = first_ == nullptr ? &first_ : end_;
    }
    /// Off the packet path: walks the list.
    void remove(Member& member) {
        Member** at = &first_;
        while (*at != nullptr && *at != &member) {
            at = &(*at)->next_in_turn;
        }
        if (*at == nullptr) {
            return;
        }
        *at = member.next_in_turn;
        if (end_ == &member.next_in_turn) {
            end_ = at;
        }
    }
    /// The first one took `cost`. When its turn is over the others come before it.
    void charge(std::int64_t cost, std::int64_t quantum) {
        Member& member = *first_;
        member.deficit -= cost;
        if (member.deficit > 0) {
            return;
        }
        pop();
        push(member);
        // Who has more debt than a quantum misses his turn: the next one is the first that may run. A lone
        // one owes nobody anything.
        for (Member* next = first_; next->deficit <= 0; next = first_) {
            next->deficit = next->next_in_turn == nullptr ? quantum : next->deficit + quantum;
            if (next->deficit <= 0) {
                pop();
                push(*next);
            }
        }
    }

  private:
    Member* first_ = nullptr;
    Member** end_ = &first_;  // where the next one is linked
};

struct UserShare;

/// Who a program is, for the log.
struct ProgramId {
    pid_t pid = 0;  // 0: none
    uid_t uid = 0;
};

/// What one program has on one worker. Stays at its address while the worker has the program.
struct ProgramShare {
    ProgramShare() = default;
    ProgramShare(const ProgramShare&) = delete;
    ProgramShare& operator=(const ProgramShare&) = delete;

    UserShare* user = nullptr;
    ProgramId id;
    /// What receivers have taken to copy from its memory since its last turn (CopyCharge).
    std::int64_t copied = 0;
    // The run queue's own:
    QpSlot* first = nullptr;
    QpSlot** end = &first;
    bool is_listed = false;
    std::int64_t deficit = 0;
    ProgramShare* next_in_turn = nullptr;
};

class ClientDoorbells;

/// The programs of one user that rang lately.
struct BusyPrograms {
    // DoorbellScan's own:
    TurnList<ClientDoorbells> programs;
    std::uint32_t count = 0;
    BusyPrograms* next_in_turn = nullptr;
};

/// What all programs of one user have on one worker. Outlives them.
struct UserShare {
    BusyPrograms busy;
    // The run queue's own:
    TurnList<ProgramShare> programs;
    bool is_listed = false;
    std::int64_t deficit = 0;
    UserShare* next_in_turn = nullptr;
};

/// QPs that want to run; each at most once. Within a program first in, first out. Intrusive.
class RunQueue {
  public:
    /// `quantum`: how long a turn is, in the unit of charge().
    explicit RunQueue(std::int64_t quantum) : quantum_(quantum) { nobody_.user = &nobodys_; }
    RunQueue(const RunQueue&) = delete;
    RunQueue& operator=(const RunQueue&) = delete;

    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::uint32_t size() const { return size_; }

    /// The share of QPs that no program rings for (XRC targets).
    [[nodiscard]] ProgramShare& nobodys_share() { return nobody_; }

    void push(QpSlot& slot) {
        if (slot.is_queued) {
            return;
        }
        ProgramShare& program = *slot.share;
        if (program.first == nullptr) {
            ++waiting_programs_;
            list(program);
        }
        slot.is_queued = true;
        slot.next_queued = nullptr;
        *program.end = &slot;
        program.end = &slot.next_queued;
        ++size_;
    }

    /// The queue is not empty. Until charge() or the next pop() the QP's program has its turn.
    [[nodiscard]] QpSlot& pop() {
        ProgramShare& program = next_program();
        QpSlot& slot = *program.first;
        program.first = slot.next_queued;
        if (program.first == nullptr) {
            program.end = &program.first;
            --waiting_programs_;
        }
        slot.is_queued = false;
        --size_;
        return slot;
    }

    /// Returns whether somebody else's QPs wait while that one, which was popped, runs.
    [[nodiscard]] bool do_others_wait(const QpSlot& popped) const {
        return waiting_programs_ > (popped.share->first != nullptr ? 1U : 0U);
    }
    /// The QP that was popped last took that long, beside what was copied for its program.
    void charge(std::int64_t cost) {
        UserShare& user = users_.front();
        cost += std::exchange(user.programs.front().copied, 0);
        user.programs.charge(cost, quantum_);
        users_.charge(cost, quantum_);
    }
    /// It ran while nobody else waited: it owes nothing.
    static void forgive(const QpSlot& popped) { popped.share->copied = 0; }

    /// Off the packet path: walks the queue.
    void remove(QpSlot& slot) {
        if (!slot.is_queued) {
            return;
        }
        ProgramShare& program = *slot.share;
        QpSlot** at = &program.first;
        while (*at != &slot) {
            at = &(*at)->next_queued;
        }
        *at = slot.next_queued;
        if (program.end == &slot.next_queued) {
            program.end = at;
        }
        waiting_programs_ -= program.first == nullptr ? 1 : 0;
        slot.is_queued = false;
        --size_;
    }
    /// The program, which has no QP any more, goes.
    void remove(ProgramShare& program) {
        UserShare& user = *program.user;
        // While nobody waits it is forgiven, as forgive() does.
        user.deficit -= waiting_programs_ != 0 ? program.copied : 0;
        program.copied = 0;
        if (!program.is_listed) {
            return;
        }
        program.is_listed = false;
        user.programs.remove(program);
        if (user.programs.empty()) {
            user.is_listed = false;
            users_.remove(user);
        }
    }

  private:
    /// Who comes newly has a whole turn, and whatever he still owes.
    void list(ProgramShare& program) {
        UserShare& user = *program.user;
        if (!program.is_listed) {
            program.is_listed = true;
            program.deficit = std::min<std::int64_t>(program.deficit, 0) + quantum_;
            user.programs.push(program);
        }
        if (!user.is_listed) {
            user.is_listed = true;
            user.deficit = std::min<std::int64_t>(user.deficit, 0) + quantum_;
            users_.push(user);
        }
    }
    /// The first that has a QP. Who has none leaves his list only now: often he wants to continue at once.
    ProgramShare& next_program() {
        for (;;) {
            UserShare& user = users_.front();
            while (!user.programs.empty()) {
                ProgramShare& program = user.programs.front();
                if (program.first != nullptr) [[likely]] {
                    return program;
                }
                program.is_listed = false;
                user.programs.pop();
            }
            user.is_listed = false;
            users_.pop();
        }
    }

    std::int64_t quantum_;
    TurnList<UserShare> users_;
    std::uint32_t size_ = 0;
    std::uint32_t waiting_programs_ = 0;
    ProgramShare nobody_;
    UserShare nobodys_;
};

}  // namespace urnic::dataplane
