#!/bin/sh
# The guest's first process: modules, addresses, an rxe device on eth0 where the image has rxe, then the agent. Its console says what went wrong.
# Told on the kernel's command line: urnic.mtu=N, urnic.addresses=A/N,B/N..., urnic.vlan=ID:A/N,B/N...,
# urnic.vfio=PCI address,... of NICs that are not the kernel's.
export PATH=/usr/bin:/bin HOME=/root
export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu:/lib/x86_64-linux-gnu
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
    insmod "$module" || echo "guest: insmod $module failed"
done </modules/order

# Busybox's shell prefers its own to that of the path.
ip() { /usr/bin/ip "$@"; }
value() { sed -n "s/.*urnic\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
ulimit -l unlimited
for address in $(value vfio | tr , ' '); do
    nic=/sys/bus/pci/devices/$address
    echo vfio-pci >$nic/driver_override
    [ ! -e $nic/driver ] || echo "$address" >$nic/driver/unbind
    echo "$address" >/sys/bus/pci/drivers_probe
done
# Addresses are there at once: nobody else is on this network.
for kind in all default; do
    echo 0 >/proc/sys/net/ipv6/conf/$kind/accept_dad
    echo 0 >/proc/sys/net/ipv6/conf/$kind/router_solicitations
done
ip link set lo up
ip link set eth0 mtu "$(value mtu)"
ip link set eth0 up
for address in $(value addresses | tr , ' '); do ip addr add "$address" dev eth0 || echo "guest: no address $address"; done
vlan=$(value vlan)
if [ -n "$vlan" ]; then
    ip link add link eth0 name eth0.vlan type vlan id "${vlan%%:*}"
    ip link set eth0.vlan up
    for address in $(echo "${vlan#*:}" | tr , ' '); do ip addr add "$address" dev eth0.vlan; done
fi
if [ -e /modules/rdma_rxe.ko ]; then
    rdma link add rxe0 type rxe netdev eth0 || echo "guest: no rxe"
    mkdir -p /dev/infiniband
    for device in uverbs0 rdma_cm; do
        [ ! -e /dev/$device ] || ln -s ../$device /dev/infiniband/$device
    done
    i=0
    until grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state || [ $i = 100 ]; do
        i=$((i + 1))
        usleep 50000
    done
    echo "guest: rxe0 $(cat /sys/class/infiniband/rxe0/ports/1/state) after $(cut -d' ' -f1 /proc/uptime) s"
fi
sh /agent
echo "guest: the agent ended"
poweroff -f
