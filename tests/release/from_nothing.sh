# from_nothing.sh BASE TARBALL WORK: how long a machine that has nothing but the distribution's base (the chroot BASE, which stays as it
# is) takes to the first verified bytes of RDMA: package lists, libibverbs and its examples from the distribution's archive, the tarball
# unpacked, two programs of a user's. Once from nothing, and once where lists and packages lie in apt's cache. The tarball is here already.
# In namespaces of its own for mounts and processes, and in the machine's network, where the archive is. WORK: a folder for the copies.
base=$1 tarball=$2 work=$3
mount --make-rprivate /
cat >"$work/try" <<'INSIDE'
set -eu
export DEBIAN_FRONTEND=noninteractive
start=$(date +%s%N)
[ "$1" = cached ] || apt-get update -qq
apt-get install -y -qq --no-install-recommends ibverbs-utils >/tmp/apt.log 2>&1 || { tail -20 /tmp/apt.log; exit 1; }
tar -xzf /tmp/*.tar.gz -C /opt
# As a user. -c: the server compares the payload, and says so alone. A port of its own: the network is the machine's.
setpriv --reuid=65534 --regid=65534 --clear-groups env TMPDIR=/tmp HOME=/tmp sh -c '/opt/urnic-*/bin/urnic run --standalone -- sh -ec "
    ibv_rc_pingpong -c -g 1 -n 1 -d urnic0 -p 18604 >/tmp/server & until grep -q :48AC.*:0000.0A /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done
    ibv_rc_pingpong -c -g 1 -n 1 -d urnic1 -p 18604 127.0.0.1; wait \$!"' >/tmp/client || { cat /tmp/server /tmp/client; exit 1; }
if ! grep -q ' bytes in ' /tmp/server || grep 'invalid data' /tmp/server; then
    echo "the bytes are not those that were sent"
    exit 1
fi
echo "$1: $((($(date +%s%N) - start) / 1000000)) ms"
INSIDE
for from in nothing cached; do
    root=$work/$from
    cp -a "$base" "$root"
    # A base that debootstrap made has what it was made of in the cache; a container's has nothing.
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    if [ "$from" = cached ]; then
        cp -a "$work"/nothing/var/cache/apt/archives/*.deb "$root/var/cache/apt/archives/"
        cp -a "$work"/nothing/var/lib/apt/lists/. "$root/var/lib/apt/lists/"
    fi
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    cp "$tarball" "$work/try" "$root/tmp/"
    # Ubuntu's apt removes what it has installed from the cache.
    chroot "$root" sh -c 'echo "APT::Keep-Downloaded-Packages \"true\"; Binary::apt-get::APT::Keep-Downloaded-Packages \"true\";" >/etc/apt/apt.conf.d/99keep'
    chroot "$root" sh /tmp/try "$from"
done
