// Runs in the kernel for each frame that an interface receives: what is RoCEv2 or MAC control goes to the RNIC's
// AF_XDP socket of the queue, everything else on to the kernel. Built for the BPF machine; xdp_program.cc loads it.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ROCEV2_PORT 4791
#define MAC_CONTROL 0x8808
#define FRAGMENT_MASK 0x3fff /* more fragments, fragment offset */

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, 64);
} sockets SEC(".maps");

struct vlan_tag {
    __be16 tci;
    __be16 type;
};

SEC("xdp")
int urnic_rdma(struct xdp_md *ctx) {
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *ethernet = (void *)(long)ctx->data;
    void *at = ethernet + 1;
    if (at > end) return XDP_PASS;
    __be16 type = ethernet->h_proto;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD)) break;
        struct vlan_tag *tag = at;
        if ((void *)(tag + 1) > end) return XDP_PASS;
        type = tag->type;
        at = tag + 1;
    }
    struct udphdr *udp;
    if (type == bpf_htons(ETH_P_IP)) {
        struct iphdr *ip = at;
        if ((void *)(ip + 1) > end || ip->protocol != IPPROTO_UDP || (ip->frag_off & bpf_htons(FRAGMENT_MASK)) != 0)
            return XDP_PASS;
        udp = at + ip->ihl * 4;
    } else if (type == bpf_htons(ETH_P_IPV6)) {
        struct ipv6hdr *ip = at;
        if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP) return XDP_PASS;
        udp = (void *)(ip + 1);
    } else if (type == bpf_htons(MAC_CONTROL)) {
        // Pause frames, in which the kernel has no interest.
        return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
    } else {
        return XDP_PASS;
    }
    if ((void *)(udp + 1) > end || udp->dest != bpf_htons(ROCEV2_PORT)) return XDP_PASS;
    // XDP_PASS where no socket has the queue.
    return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char terms[] SEC("license") = "Dual BSD/GPL";
