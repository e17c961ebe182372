# in_chroot.sh ROOT [--keep]: what scripts/debian tries in the chroot. In namespaces of its own for mounts and processes.
root=$1
cp debian/tests/perftest "$root/packages/"
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t devtmpfs devtmpfs "$root/dev" 2>/dev/null || mount --rbind /dev "$root/dev"
cat >"$root/packages/try" <<'EOF'
set -eu
export DEBIAN_FRONTEND=noninteractive
say() { echo "== $*"; }
files() { find / -xdev \( -path /packages -o -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /root -o -path /home \) -prune -o -print | sort; }
apt-get update -qq
# What the packages need, and what runs over them, stays; then what is left is theirs.
apt-get install -y -qq --no-install-recommends perftest ibverbs-utils rdmacm-utils librte-meta-all libtirpc-dev libibverbs-dev librdmacm-dev apparmor systemd-standalone-sysusers python3-matplotlib \
    $(for package in /packages/*.deb; do dpkg-deb -f "$package" Depends; done | tr ',' '\n' | sed 's/^ *//; s/[ (|:].*//' | grep -v -e urnic -e systemd | sort -u) \
    >/packages/apt.log 2>&1 || { tail -20 /packages/apt.log; exit 1; }
id alice >/dev/null 2>&1 || useradd -m alice
files >/packages/before
say "apt install ./*.deb"
apt-get install -y -qq --no-install-recommends /packages/*.deb >>/packages/apt.log 2>&1 || { tail -20 /packages/apt.log; exit 1; }
getent passwd urnic >/dev/null || { echo "the user urnic was not made"; exit 1; }
DPKG_MAINTSCRIPT_PACKAGE=urnicd deb-systemd-helper --quiet is-enabled urnicd.service || { echo "urnicd.service is not enabled"; exit 1; }
say "perftest as a user, over a daemon of her own"
sh /packages/perftest
say "The system's daemon, with the configuration that the package brings"
grep -q '^rdma:' /etc/group
usermod -aG rdma alice
urnicd --config /etc/urnic/urnicd.toml --check
mkdir -p /run/urnic && chown urnic /run/urnic
runuser -u urnic -g rdma -- urnicd --config /etc/urnic/urnicd.toml >/tmp/urnicd.log 2>&1 &
until runuser -u alice -- urnic status >/dev/null 2>&1; do
    kill -0 $! || { cat /tmp/urnicd.log; exit 1; }
    sleep 0.1
done
runuser -u alice -- urnic run -- ibv_devinfo -d urnic1 | grep PORT_ACTIVE
say "Installed again beside the daemon, which goes on"
apt-get install -y -qq --reinstall /packages/*.deb >/packages/again.log 2>&1 || { tail -20 /packages/again.log; exit 1; }
grep 'goes on, so that programs keep their RNICs' /packages/again.log || { cat /packages/again.log; exit 1; }
runuser -u alice -- urnic run -- ibv_devinfo -d urnic1 | grep PORT_ACTIVE
kill $!
wait $! || true
say "Removed, purged"
mine=$(for package in /packages/*.deb; do dpkg-deb -f "$package" Package; done)
apt-get purge -y -qq $mine >>/packages/apt.log 2>&1
rm -rf /run/urnic
files >/packages/after
diff /packages/before /packages/after | grep '^>' | grep -v -e /var/lib/systemd -e '/etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-\?$' && { echo "these files are left"; exit 1; }
say "Nothing is left"
EOF
status=0
chroot "$root" sh /packages/try || status=$?
umount -R "$root/dev" "$root/run" "$root/sys" "$root/proc"
[ "${2:-}" = --keep ] || rm -rf --one-file-system "$root"
exit $status
