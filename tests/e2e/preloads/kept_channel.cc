// Preloaded into rping, which closes its event channel at its end while its other thread may be about to ask
// that channel for events. That thread then ends the program with status 255 after all has gone well, on any
// RNIC (rdma-core mended it in 2025: f3ae6534a, "rping: terminate CM event thread before exiting"). Here the
// channel stays open until the process ends, which is next.
struct rdma_event_channel;

extern "C" __attribute__((visibility("default"))) void rdma_destroy_event_channel(
    rdma_event_channel* /*channel*/) {}
