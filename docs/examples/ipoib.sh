#!/bin/bash
# Two hosts, a network namespace each, that have IP over InfiniBand between them:
#   unshare -Urn urnic run --standalone --link-layer infiniband -- bash ipoib.sh [OCTETS [OPTION...]]
# pings over IPv4 and IPv6, at the MTU and one octet above it, then copies a file of OCTETS (1,000,000,000) and compares its SHA-256.
# OPTION...: of urnic ipoib, such as --mode connected. Without --link-layer infiniband the links are on RoCE.
set -euo pipefail
octets=${1:-1000000000}
shift || true

hosts=()
server=
folder=$(mktemp -d)
end() {
    for program in $server "${hosts[@]}"; do kill "$program" 2>/dev/null || true; done
    wait || true
    rm -r "$folder"
}
trap end EXIT
# Runs a command on host 0 or 1: in the network namespace of its link, which ends with that.
on() { nsenter -t "${hosts[$1]}" -n "${@:2}"; }
until_on() {  # HOST COMMAND...: again and again, as long as its link is there
    until on "$@" >"$folder/said" 2>&1; do
        kill -0 "${hosts[$1]}" || { cat "$folder/said" && exit 1; }
        sleep 0.1
    done
}

for host in 0 1; do
    unshare -n urnic ipoib -d urnic$host -i ib0 "${@}" &
    hosts+=($!)
    until_on $host ip link show ib0
    on $host ip address add 10.9.0.$((host + 1))/24 dev ib0
    # A link-local address is of use once nobody else has it (RFC 4862).
    until_on $host bash -c '[[ $(ip -6 -o address show dev ib0 scope link) =~ fe80 && $(ip -6 address show dev ib0 tentative) = "" ]]'
done
mtu=$(on 0 ip -o link show ib0 | sed 's/.* mtu \([0-9]*\) .*/\1/')
ipv6=$(on 1 ip -6 -o address show dev ib0 scope link | sed 's/.* \(fe80[^/]*\)\/.*/\1/')

until_on 0 ping -c 1 -W 1 10.9.0.2
on 0 ping -q -c 3 10.9.0.2
on 0 ping -q -c 3 "$ipv6%ib0"
# An IPv4 header and one of ICMP have 28 octets.
on 0 ping -q -c 3 -M 'do' -s $((mtu - 28)) 10.9.0.2
if on 0 ping -c 1 -W 1 -M 'do' -s $((mtu - 27)) 10.9.0.2; then
    echo "a packet of more than the MTU of $mtu octets has passed" && exit 1
fi

head -c "$octets" /dev/urandom >"$folder/file"
sent=$(sha256sum <"$folder/file")
(cd "$folder" && exec nsenter -t "${hosts[1]}" -n python3 -m http.server --bind 10.9.0.2 8000 >"$folder/log" 2>&1) &
server=$!
until_on 0 bash -c ': </dev/tcp/10.9.0.2/8000'
began=${EPOCHREALTIME/./}
received=$(on 0 python3 -c '
import shutil, sys, urllib.request
shutil.copyfileobj(urllib.request.urlopen("http://10.9.0.2:8000/file"), sys.stdout.buffer, 1 << 20)' | sha256sum)
took=$((${EPOCHREALTIME/./} - began))
[ "$sent" = "$received" ] || { echo "what has come is not what was sent: SHA-256 $received, not $sent" && exit 1; }
echo "$octets octets, the same at the other end, in $((took / 1000)) ms: $((octets * 8 / took)) Mbit/s"
