# An upgrade from an older release, where an administrator has changed things, beside a daemon that goes on. The older packages, in
# /packages/older, are the same programs with other files for configuration, and one file more (tests/debian/older.sh).
. /packages/common.sh
say "An older release, with a configuration, a service and a user as an administrator has changed them"
apt install /packages/older/*.deb
grep -q '^# of an older release$' /etc/urnic/urnicd.toml
sed -i 's/^name = "urnic0"$/name = "mine0"/' /etc/urnic/urnicd.toml
# What `systemctl disable` does.
rm /etc/systemd/system/multi-user.target.wants/urnicd.service
user=$(id urnic)
start_daemon
is_active mine0
say "Upgraded"
apt install /packages/*.deb
grep 'goes on, so that programs keep their RNICs' /packages/apt.log || fail "nothing was said of the daemon: $(cat /packages/apt.log)"
# shellcheck disable=SC2046
[ "$(dpkg-query -W -f '${Version} ${Status}\n' $(mine) | sort -u | wc -l)" -eq 1 ] ||
    fail "not all are of one version: $(dpkg-query -W $(mine))"
is_active mine0
stop_daemon
grep -q '^name = "mine0"$' /etc/urnic/urnicd.toml || fail "the administrator's configuration is gone"
! grep -q 'older release' /etc/urnic/urnicd.toml.dpkg-dist || fail "/etc/urnic/urnicd.toml.dpkg-dist is not the new release's"
! grep -q 'older release' /etc/apparmor.d/urnicd || fail "the profile, which nobody had changed, is still the older release's"
[ ! -e /usr/share/doc/urnicd/older ] || fail "a file that the new release does not have is still there"
! is_enabled || fail "the upgrade has enabled the service"
[ "$(id urnic)" = "$user" ] || fail "the daemon's user was $user, and is $(id urnic)"
start_daemon
is_active mine0
stop_daemon
say "Removed: configuration stays, for the next installation"
# shellcheck disable=SC2046
apt remove $(mine)
[ ! -e /usr/sbin/urnicd ] || fail "/usr/sbin/urnicd is still there"
grep -q '^name = "mine0"$' /etc/urnic/urnicd.toml || fail "the administrator's configuration is gone"
say "Purged"
purge
