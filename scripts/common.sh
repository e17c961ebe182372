# For the other scripts; sourced. Sets `top` and `build` and changes to the top of the tree.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${URNIC_BUILD_DIR:-$top/build}
# Debian's own tools: a python or a meson of the user's in front of them would not see Debian's packages.
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
cd "$top"
# ccache takes the headers of a compilation from what the compiler wrote (-MD), instead of preprocessing every source once more.
export CCACHE_DEPEND=1

# What programs run on; what `urnic` has besides, as programs of their own; and what is run beside them to measure them.
product=(urnic urnicd verbs_provider/liburnic-rdmav34.so verbs_provider/liburnic-discovery.so)
tools=(cli/decode/urnic-decode experiment/urnic-experiment)
measured=(bench/e2e/floor bench/verbs/verbs_bench)

say() { printf '\n== %s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# One build of a tree at a time: others wait. The lock is on a directory, so it leaves no file behind.
lock_tree() {
    mkdir -p "$1" 2>/dev/null || true
    if [ ! -w "$1" ]; then
        die "$1 cannot be written by $(id -un) (it belongs to $(stat -c %U "$1" 2>/dev/null || stat -c %U "$top")):
    run this as that user, or clone the tree anew, or set URNIC_BUILD_DIR to a directory of your own"
    fi
    exec {lock_fd}<"$1"
    if ! flock -n "$lock_fd"; then
        echo "waiting for another build of $1"
        flock "$lock_fd"
    fi
}
unlock_tree() { exec {lock_fd}<&-; }

# Where only the result counts, sources of one library or program are compiled together: headers are read once.
# -g1: function and line of a finding, which is all that is shown, in three quarters of the time that -g takes.
configure_sanitized() {  # TREE SANITIZERS [OPTION...]
    [ ! -e "$1/build.ninja" ] || return 0
    say "Configuring $1"
    meson setup "$1" "$top" -Doptimization=1 -Ddebug=false -Dcpp_args=-g1 -Db_sanitize="$2" -Db_lundef=false \
        -Dbench=false -Dunity=on -Dunity_size=40 "${@:3}" >/dev/null
}
# One tree for the suites and the fuzz targets. clang: libFuzzer is its own, and it compiles these in half of GCC's time.
asan_tree=$build-asan
configure_asan() {
    local compiler
    compiler=$(command -v clang++-14) || die "$asan_tree is built with clang: run scripts/setup"
    ! command -v ccache >/dev/null || compiler="ccache $compiler"
    # Not the check of the dynamic type: it makes a pipe to see whether memory is there, and where a test leaves no
    # descriptors it takes every object for none.
    CXX=$compiler configure_sanitized "$asan_tree" address,undefined -Dfuzz=true "-Dcpp_args=-g1 -fno-sanitize=vptr"
}
# GCC: clang's runtime library has an operator new that no test may replace.
tsan_tree=$build-tsan
configure_tsan() { configure_sanitized "$tsan_tree" thread; }
