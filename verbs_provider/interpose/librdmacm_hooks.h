// librdmacm's kernel interface. librdmacm opens /dev/infiniband/rdma_cm, writes commands to it and waits for
// it to become readable; its calls of open, write, fstat and close are diverted here (docs/adr/0018), and go
// to the daemon over the process's session. The descriptor is a socket's.
#pragma once

namespace urnic::provider {

/// Diverts librdmacm's calls, if it is loaded by now. libibverbs is asked for devices before librdmacm opens
/// anything, so it is enough to call this then. Harmless when it was done before.
void install_cm_hooks();
/// Returns whether this thread is creating a CQ for librdmacm.
[[nodiscard]] bool is_librdmacm_creating_cq();
/// Once, when the provider is loaded.
void install_cm_fork_handlers();

}  // namespace urnic::provider
