#!/bin/bash -eu
# Builds every fuzz target into $OUT with its corpus, as OSS-Fuzz wants it: CC, CXX, CFLAGS, CXXFLAGS, LIB_FUZZING_ENGINE, OUT,
# SRC and WORK come from there. Shared libraries that a target needs lie beside it.
cd "$SRC/urnic"
tree=${WORK:-/tmp}/urnic-fuzz
rm -rf "$tree"
# The engine is the linker's to bring in; sanitizers come by CXXFLAGS.
meson setup "$tree" -Doptimization=1 -Ddebug=true -Dwerror=false -Dbench=false -Dfuzz=true -Db_lundef=false -Db_pie=true \
    -Dfuzz_engine="${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}" -Dunity=on -Dunity_size=12
# shellcheck disable=SC2207  # one name a line
targets=($(sed -n "s/^  '\([a-z_]*\)': \[\[.*/\1/p" tests/fuzz/meson.build))
ninja -C "$tree" "${targets[@]/#/tests/fuzz/fuzz_}"
mkdir -p "$OUT/lib"
for name in "${targets[@]}"; do
    cp "$tree/tests/fuzz/fuzz_$name" "$OUT/$name"
    # shellcheck disable=SC2016  # for the dynamic linker
    patchelf --set-rpath '$ORIGIN/lib' "$OUT/$name" 2>/dev/null || echo "no patchelf: $name looks for its libraries in the system"
    ldd "$OUT/$name" | awk '$3 ~ /^\/(usr\/)?lib/ && $3 !~ /\/lib(c|m|pthread|dl|rt|gcc_s)\.so/ {print $3}' | xargs -r cp -n -t "$OUT/lib"
    (cd "tests/fuzz/corpus/$name" && zip -q -r "$OUT/${name}_seed_corpus.zip" .) || echo "no corpus for $name"
    printf '[libfuzzer]\nmax_len = 8192\n' >"$OUT/$name.options"
done
