#include "verbs_provider/core/got_patch.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "verbs_provider/core/address.h"

namespace urnic::provider {

namespace {

/// What patching needs of a library's dynamic section.
struct Library {
    std::uintptr_t base = 0;
    std::uintptr_t relro_begin = 0;
    std::uintptr_t relro_end = 0;
    const char* strings = nullptr;
    std::uint64_t soname = 0;  // where it stands in `strings`; 0: none
    const ElfW(Sym) * symbols = nullptr;
    const ElfW(Rela) * plt = nullptr;
    std::size_t plt_bytes = 0;
    const ElfW(Rela) * data = nullptr;
    std::size_t data_bytes = 0;
};

struct Search {
    std::uintptr_t address;
    Library library;
    bool found;
};

void read_dynamic(const ElfW(Dyn) * entry, Library& library) {
    for (; entry->d_tag != DT_NULL; ++entry) {
        const auto pointer = entry->d_un.d_ptr;
        switch (entry->d_tag) {
            case DT_STRTAB:
                library.strings = at_address<const char>(pointer);
                break;
            case DT_SONAME:
                library.soname = entry->d_un.d_val;
                break;
            case DT_SYMTAB:
                library.symbols = at_address<const ElfW(Sym)>(pointer);
                break;
            case DT_JMPREL:
                library.plt = at_address<const ElfW(Rela)>(pointer);
                break;
            case DT_PLTRELSZ:
                library.plt_bytes = entry->d_un.d_val;
                break;
            case DT_RELA:
                library.data = at_address<const ElfW(Rela)>(pointer);
                break;
            case DT_RELASZ:
                library.data_bytes = entry->d_un.d_val;
                break;
            default:
                break;
        }
    }
}

/// Returns false if it has no dynamic section. `inside`: whether `address` is in it.
bool read_library(const dl_phdr_info* info, std::uintptr_t address, Library& library, bool& inside) {
    const ElfW(Phdr)* dynamic = nullptr;
    library.base = info->dlpi_addr;
    inside = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& header = info->dlpi_phdr[i];
        const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
        if (header.p_type == PT_LOAD) {
            inside |= address >= begin && address < begin + header.p_memsz;
        } else if (header.p_type == PT_DYNAMIC) {
            dynamic = &header;
        } else if (header.p_type == PT_GNU_RELRO) {
            library.relro_begin = begin;
            library.relro_end = begin + header.p_memsz;
        }
    }
    if (dynamic == nullptr) {
        return false;
    }
    read_dynamic(at_address<const ElfW(Dyn)>(info->dlpi_addr + dynamic->p_vaddr), library);
    // The loader has made pointers of the addresses, but not in the vdso.
    return library.symbols != nullptr && reinterpret_cast<std::uintptr_t>(library.strings) > library.base;
}

int examine(dl_phdr_info* info, std::size_t, void* data) {
    auto* search = static_cast<Search*>(data);
    Library library;
    bool inside = false;
    if (!read_library(info, search->address, library, inside) || !inside) {
        return 0;
    }
    search->library = library;
    search->found = true;
    return 1;
}

/// Stores a pointer into a slot that the loader may have made read-only.
bool store(const Library& library, std::uintptr_t slot, void* value) {
    if (__atomic_load_n(at_address<void*>(slot), __ATOMIC_RELAXED) == value) {
        return true;
    }
    const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t page = slot & ~(page_size - 1);
    if (mprotect(at_address<void>(page), page_size, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    __atomic_store_n(at_address<void*>(slot), value, __ATOMIC_SEQ_CST);
    // The loader protects whole pages of the RELRO range: the last, partial one stays writable.
    if (slot >= library.relro_begin && page + page_size <= library.relro_end) {
        mprotect(at_address<void>(page), page_size, PROT_READ);
    }
    return true;
}

int patch_table(const Library& library, const ElfW(Rela) * table, std::size_t bytes, const GotPatch* patches,
                int count) {
    int patched = 0;
    for (std::size_t i = 0; i < bytes / sizeof *table; ++i) {
        const ElfW(Rela)& relocation = table[i];
        const auto type = ELF64_R_TYPE(relocation.r_info);
        if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) {
            continue;
        }
        const char* name = library.strings + library.symbols[ELF64_R_SYM(relocation.r_info)].st_name;
        for (int p = 0; p < count; ++p) {
            if (strcmp(name, patches[p].symbol) != 0) {
                continue;
            }
            if (!store(library, library.base + relocation.r_offset, patches[p].replacement)) {
                return -1;
            }
            ++patched;
        }
    }
    return patched;
}

int patch_library(const Library& library, const GotPatch* patches, int count) {
    const int in_plt = patch_table(library, library.plt, library.plt_bytes, patches, count);
    const int in_data = patch_table(library, library.data, library.data_bytes, patches, count);
    return in_plt < 0 || in_data < 0 ? -1 : in_plt + in_data;
}

struct NamedSearch {
    const char* soname;
    const GotPatch* patches;
    int count;
    int patched;
};

int patch_if_named(dl_phdr_info* info, std::size_t, void* data) {
    auto* search = static_cast<NamedSearch*>(data);
    Library library;
    bool inside = false;
    if (!read_library(info, 0, library, inside) || library.soname == 0 ||
        strcmp(library.strings + library.soname, search->soname) != 0) {
        return 0;
    }
    const int patched = patch_library(library, search->patches, search->count);
    search->patched = patched < 0 || search->patched < 0 ? -1 : search->patched + patched;
    return 0;
}

}  // namespace

int patch_got(const void* address_inside, const GotPatch* patches, int count) {
    Search search{reinterpret_cast<std::uintptr_t>(address_inside), {}, false};
    dl_iterate_phdr(examine, &search);
    if (!search.found) {
        return -1;
    }
    return patch_library(search.library, patches, count);
}

int patch_got_of(const char* soname, const GotPatch* patches, int count) {
    NamedSearch search{soname, patches, count, 0};
    dl_iterate_phdr(patch_if_named, &search);
    return search.patched;
}

}  // namespace urnic::provider
