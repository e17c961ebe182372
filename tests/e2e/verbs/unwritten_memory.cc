// Registers heap blocks as programs have them: not on page boundaries, never written, other blocks beside
// them. With "bug" it also does what memcheck has to find.
#include <infiniband/verbs.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int register_blocks(ibv_pd* pd) {
    constexpr std::array<std::size_t, 6> kSizes = {100, 5000, 70000, 300000, 64, 4096};
    for (const std::size_t size : kSizes) {
        void* const before = std::malloc(200);
        void* const block = std::malloc(size);
        ibv_mr* const mr = ibv_reg_mr(pd, block, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (mr == nullptr) {
            std::perror("ibv_reg_mr");
            return 2;
        }
        std::memset(block, 1, size);
        ibv_dereg_mr(mr);
        std::free(block);
        std::free(before);
    }
    return 0;
}

void read_behind_a_block() {
    const volatile std::size_t length = 10;  // out of the compiler's sight
    const std::size_t size = length;
    auto* const block = static_cast<volatile char*>(std::calloc(size, 1));
    const char behind = block[length];
    (void)behind;
    std::free(const_cast<char*>(block));
}

}  // namespace

int main(int argc, char** argv) {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const context = list != nullptr && *list != nullptr ? ibv_open_device(*list) : nullptr;
    ibv_pd* const pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
    if (pd == nullptr) {
        std::perror("no device, or no protection domain");
        return 2;
    }
    const int result = register_blocks(pd);
    if (argc == 2 && std::strcmp(argv[1], "bug") == 0) {
        read_behind_a_block();
    }
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
    ibv_free_device_list(list);
    return result;
}
