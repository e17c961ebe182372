# in_chroot.sh ROOT [--keep]: what scripts/debian tries in the chroot. In namespaces of its own for mounts and processes.
root=$1
mkdir "$root/packages/source"
cp -a debian "$root/packages/source/"
cp tests/debian/inside/*.sh "$root/packages/"
sh -e tests/debian/older.sh "$root/packages" "$root/packages/older"
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t devtmpfs devtmpfs "$root/dev" 2>/dev/null || mount --rbind /dev "$root/dev"
try() { chroot "$root" sh "/packages/$1.sh"; }
hardened() {
    local package packages=
    for package in "$root"/packages/*.deb; do packages="$packages $(dpkg-deb -f "$package" Package)"; done
    echo "== What is installed is hardened"
    # shellcheck disable=SC2086
    sh -e tests/debian/hardened.sh "$root" $packages
}
status=0
{ try install && hardened && try purge && try upgrade; } || status=$?
umount -R "$root/dev" "$root/run" "$root/sys" "$root/proc"
[ "${2:-}" = --keep ] || rm -rf --one-file-system "$root"
exit $status
