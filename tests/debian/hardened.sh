# hardened.sh ROOT PACKAGE...: what the packages have installed in ROOT is built and set up so that a mistake in it is hard to exploit.
# Programs and libraries by readelf, the unit by systemd-analyze, both of the machine that looks at ROOT.
root=$1
shift
failed=0
complain() { echo "$*"; failed=1; }
elves=0
for file in $(dpkg-query --admindir="$root/var/lib/dpkg" -L "$@" | sort -u); do
    path=$root$file
    [ -f "$path" ] && [ ! -L "$path" ] || continue
    # A set-user-ID program, or a file that others may change, is none of these packages'.
    [ -z "$(find "$path" -perm /6002)" ] || complain "$file: $(stat -c %A "$path")"
    [ "$(stat -c %u:%g "$path")" = 0:0 ] || complain "$file belongs to $(stat -c %u:%g "$path")"
    [ "$(head -c 4 "$path" | od -An -tx1 | tr -d ' ')" = 7f454c46 ] || continue
    elves=$((elves + 1))
    headers=$(readelf -hldW "$path")
    symbols=$(readelf --dyn-syms -W "$path")
    has() { echo "$headers" | grep -qE "$1"; }
    has 'Type: +DYN' || complain "$file is not position-independent"
    has GNU_RELRO || complain "$file: no RELRO"
    has 'BIND_NOW|Flags:.* NOW' || complain "$file: what it calls could be exchanged (no BIND_NOW)"
    has 'GNU_STACK .* RW +0x' || complain "$file: its stack is executable"
    ! has 'RPATH|RUNPATH' || complain "$file: libraries from a folder of its own"
    case $file in
        # The shim, which is loaded into programs of any kind, is built without either; in what is made for libtirpc nothing is to fortify.
        */liburnic-discovery.so) continue ;;
        */liburnic-rpcrdma-onc.so*) ;;
        *) echo "$symbols" | grep -q '_chk@' || complain "$file: no fortified function" ;;
    esac
    echo "$symbols" | grep -q __stack_chk_fail || complain "$file: no stack protector"
done
[ "$elves" -ge 8 ] || complain "only $elves programs and libraries were looked at"
# 0 is nothing that it may do, 100 everything: of a unit without any directive 96.
if command -v systemd-analyze >/dev/null; then
    systemd-analyze security --offline=true --no-pager --threshold=24 --root="$root" urnicd.service >"$root/packages/security.log" 2>&1 ||
        complain "urnicd.service may do more than it should: $(tail -1 "$root/packages/security.log")"
    tail -1 "$root/packages/security.log"
fi
[ "$failed" -eq 0 ] || exit 1
echo "$elves programs and libraries: position-independent, RELRO, BIND_NOW, no executable stack; stack protector, fortified functions"
