// Diverts the calls that one loaded library makes through its global offset table.
#pragma once

namespace urnic::provider {

/// A call of the library to divert: every GOT entry for `symbol` gets `replacement`.
struct GotPatch {
    const char* symbol;
    void* replacement;
};

/// Patches the library that contains `address_inside`. The number of entries that were patched; -1 if the
/// library was not found or its pages could not be made writable.
int patch_got(const void* address_inside, const GotPatch* patches, int count);

/// The same for every loaded library whose soname is `soname`; 0 when there is none. What is patched already
/// stays as it is and counts. Not by two threads at once.
int patch_got_of(const char* soname, const GotPatch* patches, int count);

}  // namespace urnic::provider
