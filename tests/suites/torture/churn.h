// The objects of a churning thread, and what is done to them.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/suites/torture/random.h"
#include "tests/suites/torture/shared.h"

namespace urnic::torture {

struct Region {
    ibv_mr* mr = nullptr;
    void* memory = nullptr;  // to be given back; null: of the arena, or the device's own
    std::size_t bytes = 0;
    bool heap = false;
    ibv_dm* dm = nullptr;
};

struct Queue {
    ibv_qp* qp = nullptr;
    ibv_qp_state state = IBV_QPS_RESET;
    std::vector<ibv_gid> groups;
};

struct CompletionQueue {
    ibv_cq* cq = nullptr;
    int entries = 0;
};

struct Window {
    ibv_mw* mw = nullptr;
    ibv_mw_type type = IBV_MW_TYPE_1;
};

/// Everything alive of one thread on one device. Objects are found by what they were created from, which
/// libibverbs keeps in them.
class Pool {
  public:
    Pool(Shared& shared, Random& random, ibv_context* context, ibv_gid peer)
        : shared_(shared), random_(random), context_(context), peer_(peer) {}
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool() { clear(); }

    /// One random thing.
    void step();
    /// Everything goes, in an order that is allowed.
    void clear();

  private:
    using Action = void (Pool::*)();
    struct Row {
        Action action;
        unsigned weight;
    };
    static const std::vector<Row>& rows();

    void create_pd();
    void destroy_pd();
    void create_mr();
    void create_dm();
    void rereg_mr();
    void destroy_mr();
    void create_channel();
    void destroy_channel();
    void create_cq();
    void resize_cq();
    void arm_cq();
    void destroy_cq();
    void create_srq();
    void change_srq();
    void destroy_srq();
    void create_qp();
    void move_qp();
    void use_qp();
    void attach_qp();
    void destroy_qp();
    void create_ah();
    void destroy_ah();
    void create_mw();
    void destroy_mw();
    void create_xrcd();
    void destroy_xrcd();
    void query();
    void fork_child();

    [[nodiscard]] Region draw_memory();
    [[nodiscard]] int next_state(Queue& queue, ibv_qp_state state);
    void drain(ibv_cq* cq);
    void release(Queue& queue);
    void release(Region& region);
    [[nodiscard]] bool pd_in_use(const ibv_pd* pd) const;
    [[nodiscard]] bool cq_in_use(const ibv_cq* cq) const;
    template <typename T>
    T& any(std::vector<T>& from) {
        return from[random_.below(from.size())];
    }
    template <typename T>
    void forget(std::vector<T>& from, T& which) {
        which = from.back();
        from.pop_back();
    }
    void expect(int result, bool must_be_busy, const char* what);

    Shared& shared_;
    Random& random_;
    ibv_context* context_;
    ibv_gid peer_;
    std::vector<ibv_pd*> pds_;
    std::vector<Region> mrs_;
    std::vector<ibv_comp_channel*> channels_;
    std::vector<CompletionQueue> cqs_;
    std::vector<ibv_srq*> srqs_;
    std::vector<Queue> qps_;
    std::vector<ibv_ah*> ahs_;
    std::vector<Window> mws_;
    std::vector<ibv_xrcd*> xrcds_;
};

}  // namespace urnic::torture
