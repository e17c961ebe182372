# For scripts that run what was built on other systems; sourced after common.sh. Chroots of Debian and Ubuntu with libibverbs and
# perftest and nothing of this tree, fetched once into build/distributions, some 300 MB each.
roots=$build/distributions

# fetch_root SUITE: makes $roots/SUITE unless it is there.
fetch_root() {
    local suite=$1 root=$roots/$1 mirror=http://archive.ubuntu.com/ubuntu keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    [ ! -e "$root/fetched" ] || return 0
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
    mkdir -p "$roots"
    debootstrap --variant=minbase --components=main,universe "${check[@]}" "$suite" "$root" "$mirror" ${script:+"$script"} >"$root.log" 2>&1 ||
        debootstrap --variant=minbase "${check[@]}" "$suite" "$root" "$mirror" ${script:+"$script"} >"$root.log" 2>&1 ||
        die "debootstrap failed: see $root.log"
    chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get update -q && apt-get install -y -q --no-install-recommends ibverbs-utils ibverbs-providers perftest iproute2' \
        >>"$root.log" 2>&1 || die "apt-get failed in $root: see $root.log"
    touch "$root/fetched"
}

# bind FROM TO: a bind mount until unbind_all.
bound=()
bind() {
    mkdir -p "$2"
    mount --bind "$1" "$2"
    bound+=("$2")
}
unbind_all() { for ((i = ${#bound[@]} - 1; i >= 0; i--)); do umount "${bound[i]}"; done; }
