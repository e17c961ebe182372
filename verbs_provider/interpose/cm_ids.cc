#include "verbs_provider/interpose/cm_ids.h"

#include <errno.h>
#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "verbs_provider/core/lock.h"

namespace urnic::provider {

namespace {

/// Event numbers of rdma_cma.h, which the kernel's interface has too.
enum CmEventNumber : std::uint32_t {
    kCmConnectResponse = 5,
    kCmEstablished = 9,
    kCmDisconnected = 10,
    kCmDeviceRemoval = 11,
};

struct CmId {
    std::uint32_t id;
    std::uint32_t channel;
    std::uint64_t uid;  // what librdmacm knows it by
    bool connected;
    bool was_told;  // that the daemon is gone
    CmId* next;
};

constexpr std::size_t kIdBuckets = 1024;
Mutex ids_mutex;
CmId* ids[kIdBuckets] = {};

CmId** place_of_id(std::uint32_t id) {
    CmId** at = &ids[id % kIdBuckets];
    while (*at != nullptr && (*at)->id != id) {
        at = &(*at)->next;
    }
    return at;
}

template <typename Body>
bool read_body(Body& to, const std::uint8_t* from, std::size_t bytes) {
    if (bytes < sizeof to) {
        return false;
    }
    std::memcpy(&to, from, sizeof to);
    return true;
}

/// Without memory the id is not told of the daemon's end; nothing else depends on it.
void put_id(std::uint32_t id, std::uint32_t channel, std::uint64_t uid) {
    CmId** at = place_of_id(id);
    if (*at == nullptr) {
        *at = static_cast<CmId*>(std::calloc(1, sizeof(CmId)));
    }
    if (*at != nullptr) {
        (*at)->id = id;
        (*at)->channel = channel;
        (*at)->uid = uid;
    }
}

void note_event(const rdma_ucm_event_resp& event) {
    CmId* known = *place_of_id(event.id);
    if (known == nullptr) {
        return;
    }
    if (event.event == kCmConnectResponse || event.event == kCmEstablished) {
        known->connected = true;
    } else if (event.event == kCmDisconnected) {
        known->connected = false;
    }
}

}  // namespace

void note_cm_command(std::uint32_t channel, std::uint32_t command, const std::uint8_t* body,
                     std::size_t body_bytes, const std::uint8_t* answer, std::size_t answer_bytes) {
    const int saved = errno;
    Guard guard(ids_mutex);
    rdma_ucm_create_id create{};
    rdma_ucm_create_id_resp created{};
    rdma_ucm_accept accept{};
    rdma_ucm_destroy_id destroy{};
    rdma_ucm_migrate_id migrate{};
    rdma_ucm_event_resp event{};
    if (command == RDMA_USER_CM_CMD_CREATE_ID && read_body(create, body, body_bytes) &&
        read_body(created, answer, answer_bytes)) {
        put_id(created.id, channel, create.uid);
    } else if (command == RDMA_USER_CM_CMD_ACCEPT && body_bytes >= offsetof(rdma_ucm_accept, ece)) {
        // An id of a connection request is the application's from here on.
        std::memcpy(&accept, body, std::min(body_bytes, sizeof accept));
        put_id(accept.id, channel, accept.uid);
    } else if (command == RDMA_USER_CM_CMD_DESTROY_ID && read_body(destroy, body, body_bytes)) {
        CmId** at = place_of_id(destroy.id);
        if (CmId* gone = *at; gone != nullptr) {
            *at = gone->next;
            std::free(gone);
        }
    } else if (command == RDMA_USER_CM_CMD_MIGRATE_ID && read_body(migrate, body, body_bytes)) {
        if (CmId* moved = *place_of_id(migrate.id); moved != nullptr) {
            moved->channel = channel;
        }
    } else if (command == RDMA_USER_CM_CMD_GET_EVENT &&
               answer_bytes >= offsetof(rdma_ucm_event_resp, param)) {
        std::memcpy(&event, answer, std::min(answer_bytes, sizeof event));
        note_event(event);
    }
    errno = saved;
}

std::size_t next_event_of_gone_daemon(std::uint32_t channel, std::uint8_t* answer, std::size_t room) {
    Guard guard(ids_mutex);
    for (CmId* id : ids) {
        for (; id != nullptr; id = id->next) {
            if (id->channel != channel || id->was_told) {
                continue;
            }
            id->was_told = true;
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

void lock_cm_ids() { ids_mutex.lock(); }
void unlock_cm_ids() { ids_mutex.unlock(); }
void reset_cm_ids() {
    std::fill(std::begin(ids), std::end(ids), nullptr);
    ids_mutex.reset();
}

}  // namespace urnic::provider
