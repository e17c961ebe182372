# For the scripts of this folder, which run in the chroot, in /packages; sourced.
set -eu
export DEBIAN_FRONTEND=noninteractive
say() { echo "== $*"; }
fail() {
    echo "FAILED: $*"
    exit 1
}
# apt OPTION...: apt-get, whose output is shown where it fails. An administrator's configuration stays.
apt() {
    apt-get -y -qq --no-install-recommends -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@" \
        >/packages/apt.log 2>&1 || {
        tail -20 /packages/apt.log
        fail "apt-get $1"
    }
}
files() {
    find / -xdev \( -path /packages -o -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/cache -o -path /var/log \
        -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /root -o -path /home \) -prune -o -print | sort
}
mine() { for package in /packages/*.deb; do dpkg-deb -f "$package" Package; done; }
is_enabled() { DPKG_MAINTSCRIPT_PACKAGE=urnicd deb-systemd-helper --quiet is-enabled urnicd.service; }

# As the unit does it, without systemd. Sets `daemon`.
start_daemon() {
    mkdir -p /run/urnic && chown urnic /run/urnic
    runuser -u urnic -g rdma -- urnicd --config /etc/urnic/urnicd.toml >/tmp/urnicd.log 2>&1 &
    daemon=$!
    until runuser -u alice -- urnic status >/dev/null 2>&1; do
        kill -0 "$daemon" || fail "urnicd: $(cat /tmp/urnicd.log)"
        sleep 0.1
    done
}
stop_daemon() {
    kill "$daemon"
    wait "$daemon" 2>/dev/null || true
}
is_active() { runuser -u alice -- urnic run -- ibv_devinfo -d "$1" | grep PORT_ACTIVE || fail "$1 is not active"; }

# What was there before the packages is what is there after a purge.
purge() {
    # Where they have been removed before, apt knows those alone that had configuration.
    # shellcheck disable=SC2046
    apt purge $(dpkg-query -W -f '${Package}\n' $(mine) 2>/dev/null)
    rm -rf /run/urnic
    files >/packages/after
    if diff /packages/before /packages/after | grep '^>' |
        grep -v -e /var/lib/systemd -e '/etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-\?$'; then
        fail "these files are left"
    fi
    say "Nothing is left"
}
