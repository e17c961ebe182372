# in_chroot.sh ROOT [--keep]: what scripts/rpm tries in the chroot. In namespaces of its own for mounts and processes.
root=$1
say() { echo "== $*"; }
# But folders: those that the packages do not own are the distribution's, which has no package here.
files() {
    (cd "$root" && find . -xdev \( -path ./packages -o -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./root/.rpmdb \) -prune -o ! -type d -print) |
        sort
}
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount --rbind /dev "$root/dev"
files >"$root/packages/before"
say "rpm --install"
rpm --root "$root" --install --nodeps "$root"/packages/*.rpm
rpm --root "$root" --verify --nodeps --all
for scriptlet in post preun postun; do
    rpm --root "$root" --query --scripts urnicd | grep -q "^${scriptlet}.* scriptlet" || { echo "urnicd has no %$scriptlet"; exit 1; }
done
say "perftest as a user, over a daemon of its own"
chroot "$root" sh /packages/perftest
say "rpm --erase"
mine=$(rpm --root "$root" --query --all)
rpm --root "$root" --erase $mine
files >"$root/packages/after"
# The user of the daemon stays, as systemd-sysusers has it.
diff "$root/packages/before" "$root/packages/after" | grep '^>' && { echo "these files are left"; exit 1; }
say "Nothing is left"
umount -R "$root/dev" "$root/run" "$root/sys" "$root/proc"
[ "${2:-}" = --keep ] || rm -rf --one-file-system "$root"
