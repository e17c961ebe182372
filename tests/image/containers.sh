#!/bin/bash
# containers.sh IMAGE TARBALL SPEC: what scripts/image tries with podman, as the user who calls it. The daemon is the tarball's, outside.
# SPEC: a file of this user's where podman looks for CDI specifications.
set -euo pipefail
image=$1 spec=$3
say() { echo "== $*"; }
fail() {
    echo "FAILED: $*"
    exit 1
}
dir=$(mktemp -d /tmp/urnic-image-XXXXXX)
started=()
daemon=
# shellcheck disable=SC2317
clean() {
    for name in "${started[@]}"; do podman rm --force "$name" >/dev/null 2>&1 || true; done
    [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null || true
    rm -rf "$dir"
}
trap clean EXIT
chmod 755 "$dir"
tar -xzf "$2" --strip-components=1 -C "$dir"

# What crun and podman set by default is refused in some sandboxes: cgroups, and limits above the ones here.
run=()
for options in "" "--runtime=runc" "--runtime=runc --cgroup-manager=cgroupfs" "--runtime=$(command -v runc) --cgroup-manager=cgroupfs LIMITS"; do
    limits=()
    [[ $options != *LIMITS ]] || limits=(--ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
    # shellcheck disable=SC2206
    try=(podman ${options% LIMITS} run --rm --network host --cap-drop all --security-opt no-new-privileges "${limits[@]}")
    if "${try[@]}" "$image" true >>"$dir/podman.log" 2>&1; then
        run=("${try[@]}")
        break
    fi
done
[ ${#run[@]} -gt 0 ] || { cat "$dir/podman.log"; fail "podman starts no container here"; }
say "podman runs containers here with: ${run[*]}"

say "urnic doctor, in a container"
"${run[@]}" "$image" urnic doctor || fail "urnic doctor"

say "A container with a daemon of its own, as a user"
"${run[@]}" --user 1000:1000 --env TMPDIR=/tmp "$image" urnic run --standalone -- sh -c '
    ib_write_bw -d urnic0 -F -n 200 -p 18601 >/tmp/server & until grep -q ":48A9 [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done
    ib_write_bw -d urnic1 -F -n 200 -p 18601 127.0.0.1 && wait $!' | grep -A1 BW.peak || fail "standalone"

cat >"$dir/urnicd.toml" <<TOML
[daemon]
run_dir = "$dir/run"
socket_mode = "0666"
hugepages = false
copied_memory = "all"
[[rnic]]
name = "urnic0"
port = "fabric"
fabric = "lab"
offload = "off"
ipv4 = "198.18.0.1/24"
[[rnic]]
name = "urnic1"
port = "fabric"
fabric = "lab"
offload = "off"
ipv4 = "198.18.0.2/24"
TOML
"$dir/sbin/urnicd" --config "$dir/urnicd.toml" >"$dir/log" 2>&1 &
daemon=$!
until "$dir/bin/urnic" status --socket "$dir/run" >/dev/null 2>&1; do
    kill -0 "$daemon" || fail "urnicd: $(cat "$dir/log")"
    sleep 0.1
done
"$dir/bin/urnic" cdi --socket "$dir/run" >"$spec"

say "A container sees the RNICs that it was given"
seen=$("${run[@]}" --device urnic.io/rnic=urnic1 "$image" sh -c 'ls /sys/class/infiniband; ibv_devices')
echo "$seen"
[[ $seen == *urnic1* && $seen != *urnic0* ]] || fail "it sees others"
seen=$("${run[@]}" --device urnic.io/rnic=all "$image" ls /sys/class/infiniband)
[ "$(echo $seen)" = "urnic0 urnic1" ] || fail "all: $seen"

say "Two containers, an RNIC each: ib_write_bw between them"
server=urnic-test-server-$$
started+=("$server")
"${run[@]}" --name "$server" --device urnic.io/rnic=urnic0 "$image" ib_write_bw -d urnic0 -F -x 1 -n 500 -p 18602 >"$dir/server" 2>&1 &
serving=$!
until grep -q ':48AA [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do
    kill -0 "$serving" 2>/dev/null || { cat "$dir/server"; fail "the server ended"; }
    sleep 0.05
done
"${run[@]}" --device urnic.io/rnic=urnic1 "$image" ib_write_bw -d urnic1 -F -x 1 -n 500 -p 18602 127.0.0.1 || { cat "$dir/server"; fail "the client"; }
wait "$serving" || { cat "$dir/server"; fail "the server"; }
say "All passed"
