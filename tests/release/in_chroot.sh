# in_chroot.sh ROOT TARBALL PROGRAMS: what scripts/release tries in a chroot, as a user who unpacks the tarball in a folder of hers.
# In namespaces of its own for mounts, processes and networks.
root=$1
ip link set lo up
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir -p "$root/home"
mount -t tmpfs tmpfs "$root/home"
cp "$2" "$3" "$root/tmp/"
cat >"$root/tmp/try" <<'INSIDE'
set -eu
say() { echo "== $*"; }
cd
folder=$HOME/some/where/else
mkdir -p "$folder"
start=$(date +%s%N)
tar -xzf /tmp/*.tar.gz -C "$folder"
urnic=$(echo "$folder"/urnic-*/bin/urnic)
# -c: the server compares the payload, and says so alone.
"$urnic" run --standalone -- sh -c 'ibv_rc_pingpong -c -g 1 -n 1 -d urnic0 >/tmp/compared &
    until ss -ltn | grep -q ":18515 "; do sleep 0.02; done
    ibv_rc_pingpong -c -g 1 -n 1 -d urnic1 127.0.0.1 >/dev/null && wait $!'
if grep 'invalid data' /tmp/compared; then exit 1; fi
say "$(id -un): from the tarball to the first verified bytes: $((($(date +%s%N) - start) / 1000000)) ms"
"$urnic" --version
"$urnic" doctor
"$urnic" run --standalone -- sh -c 'ib_write_bw -d urnic0 -F -n 200 >/tmp/server & until ss -ltn | grep -q ":18515 "; do sleep 0.02; done
    ib_write_bw -d urnic1 -F -n 200 127.0.0.1 && wait $!'
"$urnic" run --standalone -- /tmp/programs -
say "Commands that are programs of their own"
for command in ipoib conform experiment; do "$urnic" $command --help | head -1; done
# Nothing of it is taken from the system but the C library, libibverbs and what the programs bring themselves.
for program in "$folder"/urnic-*/bin/* "$folder"/urnic-*/sbin/* "$folder"/urnic-*/libexec/urnic/urnic-*; do
    ldd "$program" | grep -v -e '/lib/urnic/bundled/' -e 'linux-vdso' -e 'ld-linux' -E -e '/lib(c|m|dl|rt|pthread|resolv|ibverbs)\.so' && { echo "$program needs these"; exit 1; }
done
exit 0
INSIDE
chroot "$root" sh -c 'id alice >/dev/null 2>&1 || useradd alice; mkdir -p /home/alice; chown alice /home/alice; chmod 755 /tmp/programs'
exec chroot "$root" runuser -u alice -- env -i HOME=/home/alice PATH=/usr/bin:/bin:/usr/sbin sh /tmp/try
