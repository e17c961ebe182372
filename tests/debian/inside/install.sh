# The packages in a distribution that has nothing but its base: installed, used, and installed again beside a daemon.
. /packages/common.sh
apt-get update -qq
# What the packages need, and what runs over them, stays; then what is left is theirs.
# shellcheck disable=SC2046
apt install autopkgtest dpkg-dev perftest ibverbs-utils rdmacm-utils librte-meta-all libtirpc-dev libibverbs-dev librdmacm-dev apparmor systemd-standalone-sysusers python3-matplotlib \
    $(for package in /packages/*.deb; do dpkg-deb -f "$package" Depends; done | tr ',' '\n' | sed 's/^ *//; s/[ (|:].*//' | grep -v -e urnic -e systemd | sort -u)
id alice >/dev/null 2>&1 || useradd -m alice
files >/packages/before
say "apt install ./*.deb"
apt install /packages/*.deb
getent passwd urnic >/dev/null || fail "the user urnic was not made"
is_enabled || fail "urnicd.service is not enabled"
say "autopkgtest: perftest as a user, over a daemon of the user's own"
autopkgtest --no-built-binaries /packages/*.deb /packages/source -- null >/packages/autopkgtest.log 2>&1 ||
    fail "autopkgtest: $(tail -40 /packages/autopkgtest.log)"
grep PASS /packages/autopkgtest.log
say "The system's daemon, with the configuration that the package brings"
grep -q '^rdma:' /etc/group
usermod -aG rdma alice
urnicd --config /etc/urnic/urnicd.toml --check
start_daemon
is_active urnic1
say "Installed again beside the daemon, which goes on"
apt install --reinstall /packages/*.deb
grep 'goes on, so that programs keep their RNICs' /packages/apt.log || fail "nothing was said of the daemon: $(cat /packages/apt.log)"
is_active urnic1
stop_daemon
is_enabled || fail "urnicd.service is no longer enabled"
