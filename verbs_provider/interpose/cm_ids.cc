#include "verbs_provider/interpose/cm_ids.h"

#include <errno.h>
#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "verbs_provider/core/lock.h"
#include "verbs_provider/interpose/cm_queries.h"

namespace urnic::provider {

namespace {

/// Event numbers of rdma_cma.h, which the kernel's interface has too.
enum CmEventNumber : std::uint32_t {
    kCmConnectRequest = 4,
    kCmConnectResponse = 5,
    kCmEstablished = 9,
    kCmDisconnected = 10,
    kCmDeviceRemoval = 11,
    kCmMulticastJoin = 12,
    kCmMulticastError = 13,
};

struct CmId {
    CmPlace place;
    std::uint32_t id;
    std::uint64_t uid;     // what librdmacm knows it by: an address; 0: that of a request not accepted yet
    std::uint32_t events;  // reported
    bool connected;
    bool was_told;                // that the daemon is dead
    abi::CmIdSnapshot* snapshot;  // nullptr: the daemon must be asked
    std::uint64_t changed_at;     // the number of the last command that changed it
    CmId* next;
    CmId* next_of_uid;
};

struct CmGroup {
    CmPlace place;
    std::uint64_t uid;  // an address, too
    std::uint32_t group;
    std::uint32_t id;
    std::uint32_t events;
    CmGroup* next;
};

constexpr std::size_t kIdBuckets = 1024;
/// librdmacm keeps its ids in a table by number, and takes a negative one for a place in it.
constexpr std::uint32_t kMaxId = 0x7fff'ffff;
Mutex ids_mutex;
CmId* ids[kIdBuckets] = {};
CmId* ids_of_uid[kIdBuckets] = {};
CmGroup* groups = nullptr;
std::uint64_t changes = 0;

/// Another session's daemon may have given the same number.
CmId** place_of_id(const CmPlace& place, std::uint32_t id) {
    CmId** at = &ids[id % kIdBuckets];
    while (*at != nullptr && ((*at)->id != id || (*at)->place.session != place.session)) {
        at = &(*at)->next;
    }
    return at;
}

CmId*& bucket_of_uid(std::uint64_t uid) { return ids_of_uid[(uid >> 4U ^ uid >> 14U) % kIdBuckets]; }

CmId* find_uid(std::uint64_t uid) {
    CmId* id = bucket_of_uid(uid);
    while (id != nullptr && id->uid != uid) {
        id = id->next_of_uid;
    }
    return id;
}

void link_uid(CmId& id) {
    CmId*& head = bucket_of_uid(id.uid);
    id.next_of_uid = head;
    head = &id;
}

void unlink_uid(const CmId& id) {
    for (CmId** at = &bucket_of_uid(id.uid); *at != nullptr; at = &(*at)->next_of_uid) {
        if (*at == &id) {
            *at = id.next_of_uid;
            return;
        }
    }
}

template <typename Body>
bool read_body(Body& to, const std::uint8_t* from, std::size_t bytes) {
    if (bytes < sizeof to) {
        return false;
    }
    std::memcpy(&to, from, sizeof to);
    return true;
}

/// How many of its events were reported.
std::uint32_t remove_id(CmId** at) {
    CmId* gone = *at;
    if (gone == nullptr) {
        return 0;
    }
    const std::uint32_t events = gone->events;
    *at = gone->next;
    unlink_uid(*gone);
    for (CmGroup** group = &groups; *group != nullptr;) {
        CmGroup* one = *group;
        if (one->id == gone->id && one->place.session == gone->place.session) {
            *group = one->next;
            std::free(one);
        } else {
            group = &one->next;
        }
    }
    std::free(gone->snapshot);
    std::free(gone);
    return events;
}

/// Returns whether the id is new, and can be one. Without memory it has no events; nothing else depends on
/// it.
bool put_id(const CmPlace& place, std::uint32_t id, std::uint64_t uid) {
    CmId** at = place_of_id(place, id);
    if (*at != nullptr || id > kMaxId) {
        return false;
    }
    *at = static_cast<CmId*>(std::calloc(1, sizeof(CmId)));
    if (*at != nullptr) {
        (*at)->place = place;
        (*at)->id = id;
        (*at)->uid = uid;
        link_uid(**at);
    }
    return true;
}

void set_uid(CmId& id, std::uint64_t uid) {
    unlink_uid(id);
    id.uid = uid;
    link_uid(id);
}

void put_group(const CmPlace& place, std::uint32_t id, std::uint64_t uid) {
    auto* group = static_cast<CmGroup*>(std::calloc(1, sizeof(CmGroup)));
    if (group != nullptr) {
        group->place = place;
        group->uid = uid;
        group->id = id;
        group->next = groups;
        groups = group;
    }
}

template <typename Wanted>
CmGroup** place_of_group(Wanted is_wanted) {
    CmGroup** at = &groups;
    while (*at != nullptr && !is_wanted(**at)) {
        at = &(*at)->next;
    }
    return at;
}

/// How many of its events were reported.
std::uint32_t remove_group(CmGroup** at) {
    CmGroup* gone = *at;
    if (gone == nullptr) {
        return 0;
    }
    const std::uint32_t events = gone->events;
    *at = gone->next;
    std::free(gone);
    return events;
}

/// Returns whether librdmacm may have the event; counts it then.
bool report(const CmPlace& place, const rdma_ucm_event_resp& event) {
    if (event.event == kCmMulticastJoin || event.event == kCmMulticastError) {
        CmGroup* group = *place_of_group([&](const CmGroup& one) { return one.uid == event.uid; });
        CmId* id = group != nullptr ? *place_of_id(group->place, group->id) : nullptr;
        if (id == nullptr) {
            return false;
        }
        ++group->events;
        ++id->events;
        return true;
    }
    CmId* id = event.uid != 0 ? find_uid(event.uid) : nullptr;
    if (id == nullptr || (event.event == kCmConnectRequest && !put_id(place, event.id, 0))) {
        return false;
    }
    ++id->events;
    if (event.event == kCmConnectResponse || event.event == kCmEstablished) {
        id->connected = true;
    } else if (event.event == kCmDisconnected) {
        id->connected = false;
    }
    return true;
}

/// What ends, or leaves its channel, waits for the acknowledgement of as many events as were reported here.
template <typename Answer>
void put_events_reported(std::uint8_t* answer, std::uint32_t events) {
    Answer own{};
    own.events_reported = events;
    std::memcpy(answer, &own, sizeof own);
}

/// Returns whether what a query says of the length of its parts is so.
bool is_possible_query(const std::uint8_t* body, std::size_t body_bytes, const std::uint8_t* answer,
                       std::size_t answer_bytes) {
    rdma_ucm_query query{};
    rdma_ucm_query_addr_resp addresses{};
    if (!read_body(query, body, body_bytes)) {
        return true;
    }
    if (query.option == RDMA_USER_CM_QUERY_PATH) {
        constexpr std::size_t kHeadBytes = offsetof(rdma_ucm_query_path_resp, path_data);
        std::uint32_t num_paths = 0;
        static_assert(offsetof(rdma_ucm_query_path_resp, num_paths) == 0);
        return read_body(num_paths, answer, answer_bytes) && answer_bytes >= kHeadBytes &&
               num_paths <= (answer_bytes - kHeadBytes) / sizeof(ib_path_rec_data);
    }
    std::memcpy(&addresses, answer, std::min(answer_bytes, sizeof addresses));
    return addresses.src_size <= sizeof addresses.src_addr && addresses.dst_size <= sizeof addresses.dst_addr;
}

bool is_possible_route(const std::uint8_t* answer, std::size_t answer_bytes) {
    rdma_ucm_query_route_resp route{};
    std::memcpy(&route, answer, std::min(answer_bytes, sizeof route));
    return route.num_paths <= sizeof route.ib_route / sizeof route.ib_route[0];
}

/// Where in a command's body the id stands that the command changes; -1: it changes none that there is.
constexpr int place_of_changed_id(std::uint32_t command) {
    switch (command) {
        case RDMA_USER_CM_CMD_BIND_IP:
            return offsetof(rdma_ucm_bind_ip, id);
        case RDMA_USER_CM_CMD_BIND:
            return offsetof(rdma_ucm_bind, id);
        case RDMA_USER_CM_CMD_RESOLVE_IP:
            return offsetof(rdma_ucm_resolve_ip, id);
        case RDMA_USER_CM_CMD_RESOLVE_ADDR:
            return offsetof(rdma_ucm_resolve_addr, id);
        case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
            return offsetof(rdma_ucm_resolve_route, id);
        case RDMA_USER_CM_CMD_CONNECT:
            return offsetof(rdma_ucm_connect, id);
        case RDMA_USER_CM_CMD_LISTEN:
            return offsetof(rdma_ucm_listen, id);
        case RDMA_USER_CM_CMD_ACCEPT:
            return offsetof(rdma_ucm_accept, id);
        case RDMA_USER_CM_CMD_REJECT:
            return offsetof(rdma_ucm_reject, id);
        case RDMA_USER_CM_CMD_DISCONNECT:
            return offsetof(rdma_ucm_disconnect, id);
        case RDMA_USER_CM_CMD_SET_OPTION:
            return offsetof(rdma_ucm_set_option, id);
        case RDMA_USER_CM_CMD_NOTIFY:
            return offsetof(rdma_ucm_notify, id);
        case RDMA_USER_CM_CMD_MIGRATE_ID:
            return offsetof(rdma_ucm_migrate_id, id);
        default:
            return -1;
    }
}

CmAnswer take_event(const CmPlace& place, const std::uint8_t* answer, std::size_t answer_bytes) {
    rdma_ucm_event_resp event{};
    std::memcpy(&event, answer, std::min(answer_bytes, sizeof event));
    return report(place, event) ? CmAnswer::kGood : CmAnswer::kOfNobody;
}

}  // namespace

void note_cm_command(const CmPlace& place, std::uint32_t command, const std::uint8_t* body,
                     std::size_t body_bytes) {
    const int saved = errno;
    Guard guard(ids_mutex);
    rdma_ucm_accept accept{};
    rdma_ucm_join_mcast join{};
    rdma_ucm_join_ip_mcast join_ip{};
    if (command == RDMA_USER_CM_CMD_ACCEPT && body_bytes >= offsetof(rdma_ucm_accept, ece)) {
        // An id of a connection request is the application's from here on.
        std::memcpy(&accept, body, std::min(body_bytes, sizeof accept));
        // The command also ends the handshake of who connected; then it says no uid.
        if (CmId* id = *place_of_id(place, accept.id); id != nullptr && accept.uid != 0) {
            set_uid(*id, accept.uid);
        }
    } else if (command == RDMA_USER_CM_CMD_JOIN_MCAST && read_body(join, body, body_bytes)) {
        put_group(place, join.id, join.uid);
    } else if (command == RDMA_USER_CM_CMD_JOIN_IP_MCAST && read_body(join_ip, body, body_bytes)) {
        put_group(place, join_ip.id, join_ip.uid);
    }
    errno = saved;
}

CmAnswer take_cm_answer(const CmPlace& place, std::uint32_t command, const std::uint8_t* body,
                        std::size_t body_bytes, std::uint8_t* answer, std::size_t answer_bytes) {
    const int saved = errno;
    Guard guard(ids_mutex);
    rdma_ucm_create_id create{};
    rdma_ucm_create_id_resp created{};
    rdma_ucm_destroy_id destroy{};
    rdma_ucm_migrate_id migrate{};
    rdma_ucm_join_mcast join{};
    CmAnswer result = CmAnswer::kGood;
    if (command == RDMA_USER_CM_CMD_CREATE_ID && read_body(create, body, body_bytes) &&
        read_body(created, answer, answer_bytes)) {
        result = put_id(place, created.id, create.uid) ? CmAnswer::kGood : CmAnswer::kImpossible;
    } else if (command == RDMA_USER_CM_CMD_DESTROY_ID && read_body(destroy, body, body_bytes)) {
        put_events_reported<rdma_ucm_destroy_id_resp>(answer, remove_id(place_of_id(place, destroy.id)));
    } else if (command == RDMA_USER_CM_CMD_LEAVE_MCAST && read_body(destroy, body, body_bytes)) {
        CmGroup** at = place_of_group([&](const CmGroup& one) {
            return one.group == destroy.id && one.place.session == place.session;
        });
        put_events_reported<rdma_ucm_destroy_id_resp>(answer, remove_group(at));
    } else if ((command == RDMA_USER_CM_CMD_JOIN_MCAST || command == RDMA_USER_CM_CMD_JOIN_IP_MCAST) &&
               body_bytes >= sizeof join.response + sizeof join.uid &&
               read_body(created, answer, answer_bytes)) {
        static_assert(offsetof(rdma_ucm_join_mcast, uid) == offsetof(rdma_ucm_join_ip_mcast, uid));
        std::memcpy(&join.uid, body + offsetof(rdma_ucm_join_mcast, uid), sizeof join.uid);
        CmGroup** at = place_of_group([&](const CmGroup& one) { return one.uid == join.uid; });
        if (*at != nullptr) {
            (*at)->group = created.id;
        }
    } else if (command == RDMA_USER_CM_CMD_MIGRATE_ID && read_body(migrate, body, body_bytes)) {
        CmId* moved = *place_of_id(place, migrate.id);
        put_events_reported<rdma_ucm_migrate_resp>(answer, moved != nullptr ? moved->events : 0);
        if (moved != nullptr) {
            moved->place = place;
        }
    } else if (command == RDMA_USER_CM_CMD_GET_EVENT) {
        result = take_event(place, answer, answer_bytes);
    } else if ((command == RDMA_USER_CM_CMD_QUERY &&
                !is_possible_query(body, body_bytes, answer, answer_bytes)) ||
               (command == RDMA_USER_CM_CMD_QUERY_ROUTE && !is_possible_route(answer, answer_bytes))) {
        result = CmAnswer::kImpossible;
    }
    errno = saved;
    return result;
}

void forget_refused_join(std::uint32_t command, const std::uint8_t* body, std::size_t body_bytes) {
    std::uint64_t uid = 0;
    if ((command != RDMA_USER_CM_CMD_JOIN_MCAST && command != RDMA_USER_CM_CMD_JOIN_IP_MCAST) ||
        body_bytes < offsetof(rdma_ucm_join_mcast, uid) + sizeof uid) {
        return;
    }
    Guard guard(ids_mutex);
    std::memcpy(&uid, body + offsetof(rdma_ucm_join_mcast, uid), sizeof uid);
    (void)remove_group(place_of_group([&](const CmGroup& one) { return one.uid == uid; }));
}

std::size_t next_event_of_gone_daemon(const CmPlace& place, std::uint8_t* answer, std::size_t room) {
    Guard guard(ids_mutex);
    for (CmId* id : ids) {
        for (; id != nullptr; id = id->next) {
            if (!(id->place == place) || id->uid == 0 || id->was_told) {
                continue;
            }
            id->was_told = true;
            ++id->events;
            rdma_ucm_event_resp event{};
            event.uid = id->uid;
            event.id = id->id;
            event.event = id->connected ? kCmDisconnected : kCmDeviceRemoval;
            const std::size_t bytes = std::min(room, sizeof event);
            std::memcpy(answer, &event, bytes);
            return bytes;
        }
    }
    return 0;
}

void forget_cm_channel(const CmPlace& place) {
    Guard guard(ids_mutex);
    for (CmId*& head : ids) {
        for (CmId** at = &head; *at != nullptr;) {
            if ((*at)->place == place) {
                (void)remove_id(at);
            } else {
                at = &(*at)->next;
            }
        }
    }
}

std::uint64_t cm_changes() {
    Guard guard(ids_mutex);
    return changes;
}

void keep_cm_snapshot(const CmPlace& place, const abi::CmIdSnapshot& snapshot, std::uint64_t changes_before) {
    rdma_ucm_query_route_resp route{};
    static_assert(sizeof route == sizeof snapshot.route);
    if (snapshot.is_valid == 0 || !is_possible_route(snapshot.route, sizeof snapshot.route)) {
        return;
    }
    const int saved = errno;
    Guard guard(ids_mutex);
    CmId* id = *place_of_id(place, snapshot.id);
    if (id != nullptr && id->place == place && id->changed_at <= changes_before) {
        if (id->snapshot == nullptr) {
            id->snapshot = static_cast<abi::CmIdSnapshot*>(std::malloc(sizeof snapshot));
        }
        if (id->snapshot != nullptr) {
            *id->snapshot = snapshot;
        }
    }
    errno = saved;
}

void drop_cm_snapshot(const CmPlace& place, std::uint32_t command, const std::uint8_t* body,
                      std::size_t body_bytes) {
    const int at = place_of_changed_id(command);
    std::uint32_t id_number = 0;
    if (at < 0 || body_bytes < static_cast<std::size_t>(at) + sizeof id_number) {
        return;
    }
    std::memcpy(&id_number, body + at, sizeof id_number);
    const int saved = errno;
    Guard guard(ids_mutex);
    if (CmId* id = *place_of_id(place, id_number); id != nullptr) {
        std::free(id->snapshot);
        id->snapshot = nullptr;
        id->changed_at = ++changes;
    }
    errno = saved;
}

bool answer_from_cm_snapshot(const CmPlace& place, std::uint32_t command, const std::uint8_t* body,
                             std::size_t body_bytes, std::uint8_t* answer, std::size_t answer_bytes) {
    using Snapshot = abi::CmIdSnapshot;
    rdma_ucm_query query{};
    rdma_ucm_init_qp_attr init{};
    std::uint32_t number = 0;
    if (((command == RDMA_USER_CM_CMD_QUERY_ROUTE && answer_bytes == Snapshot::kRouteBytes) ||
         command == RDMA_USER_CM_CMD_QUERY) &&
        read_body(query, body, body_bytes)) {
        number = query.id;
    } else if (command == RDMA_USER_CM_CMD_INIT_QP_ATTR && answer_bytes == Snapshot::kQpAttrBytes &&
               read_body(init, body, body_bytes)) {
        number = init.id;
    } else {
        return false;
    }
    Guard guard(ids_mutex);
    const CmId* id = *place_of_id(place, number);
    if (id == nullptr || !(id->place == place) || id->snapshot == nullptr) {
        return false;
    }
    const Snapshot& snapshot = *id->snapshot;
    if (command == RDMA_USER_CM_CMD_QUERY_ROUTE) {
        std::memcpy(answer, snapshot.route, sizeof snapshot.route);
        return true;
    }
    if (command == RDMA_USER_CM_CMD_QUERY) {
        rdma_ucm_query_route_resp route{};
        std::memcpy(&route, snapshot.route, sizeof route);
        return answer_cm_query(query.option, route, answer, answer_bytes);
    }
    const std::uint32_t state = init.qp_state - Snapshot::kFirstState;
    if (state >= Snapshot::kStates || (snapshot.qp_attr_states >> state & 1U) == 0) {
        return false;
    }
    std::memcpy(answer, snapshot.qp_attr[state], sizeof snapshot.qp_attr[state]);
    return true;
}

void lock_cm_ids() { ids_mutex.lock(); }
void unlock_cm_ids() { ids_mutex.unlock(); }
void reset_cm_ids() {
    std::fill(std::begin(ids), std::end(ids), nullptr);
    std::fill(std::begin(ids_of_uid), std::end(ids_of_uid), nullptr);
    groups = nullptr;
    ids_mutex.reset();
}

}  // namespace urnic::provider
