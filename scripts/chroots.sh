# For scripts that run what was built on other systems; sourced after common.sh. Chroots of Debian and Ubuntu with libibverbs and
# perftest and nothing of this tree, fetched once into build/distributions, some 300 MB each.
roots=$build/distributions

# fetch_base SUITE ROOT: makes ROOT, with the distribution's base alone, unless it is there.
fetch_base() {
    local suite=$1 root=$2 mirror=http://archive.ubuntu.com/ubuntu keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    [ ! -e "$root/fetched-base" ] || return 0
    case $suite in
        bookworm | trixie) mirror=http://deb.debian.org/debian keys=/usr/share/keyrings/debian-archive-keyring.gpg ;;
    esac
    local check=(--keyring="$keys") script=
    [ -e "$keys" ] || check=(--no-check-gpg)
    command -v debootstrap >/dev/null || apt-get install -y -q debootstrap
    # A suite younger than our debootstrap; the scripts of a distribution are all one.
    [ -e "/usr/share/debootstrap/scripts/$suite" ] || script=/usr/share/debootstrap/scripts/jammy
    say "Fetching $suite into $root"
    rm -rf "$root"
    mkdir -p "$(dirname "$root")"
    debootstrap --variant=minbase --components=main,universe "${check[@]}" "$suite" "$root" "$mirror" ${script:+"$script"} >"$root.log" 2>&1 ||
        debootstrap --variant=minbase "${check[@]}" "$suite" "$root" "$mirror" ${script:+"$script"} >"$root.log" 2>&1 ||
        die "debootstrap failed: see $root.log"
    cp /etc/resolv.conf "$root/etc/"
    touch "$root/fetched-base"
}

# fetch_root SUITE: makes $roots/SUITE unless it is there.
fetch_root() {
    local suite=$1 root=$roots/$1
    [ ! -e "$root/fetched" ] || return 0
    fetch_base "$suite" "$root"
    chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get update -q && apt-get install -y -q --no-install-recommends ibverbs-utils ibverbs-providers perftest iproute2' \
        >>"$root.log" 2>&1 || die "apt-get failed in $root: see $root.log"
    touch "$root/fetched"
}

# add_packages SUITE PACKAGE...: installs them in $roots/SUITE unless they are there.
add_packages() {
    local root=$roots/$1
    chroot "$root" dpkg-query -W "${@:2}" >/dev/null 2>&1 || chroot "$root" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${@:2}" >>"$root.log" 2>&1 || die "apt-get failed in $root: see $root.log"
}

# bind FROM TO: a bind mount until unbind_all.
bound=()
bind() {
    mkdir -p "$2"
    mount --bind "$1" "$2"
    bound+=("$2")
}
unbind_all() { for ((i = ${#bound[@]} - 1; i >= 0; i--)); do umount "${bound[i]}"; done; }
