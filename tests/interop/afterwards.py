"""What comes for a QP behind the last packet that it sent.

A program whose own requests are all answered may end without a word to the other side, which does not know that its
answer got through or is on the way: it asks, or answers, again, and the QP is gone (IBA 9.6.1.1: such a packet is
dropped). So the pingpongs end; and so does a message whose first packet was refused, whose rest is on the way. It is no fault,
and each such packet can be pointed at in the capture.
"""

import collections

RC = 0
# Operations of a responder; all others of RC are a requester's.
ANSWERS = frozenset({13, 14, 15, 16, 17, 18})


def _is_answer(packet):
    return packet.opcode & 31 in ANSWERS


def peers_of(packets, own):
    """{QPN of ours: QPN of the other side's that it talks to}: an answer names the PSN of a request. PSNs begin at random, so
    that of few QPs they are each of one alone. `own`: our MACs' bytes."""
    asked, peers = {True: {}, False: {}}, {}  # by whether ours asks
    for packet in packets:
        if packet.opcode >> 5 != RC:
            continue
        is_ours = packet.sender in own
        if not _is_answer(packet):
            asked[is_ours][packet.psn] = packet.destination
        elif packet.psn in asked[not is_ours]:
            asker_asked = asked[not is_ours][packet.psn]
            own_qp, other_qp = (asker_asked, packet.destination) if is_ours else (packet.destination, asker_asked)
            peers[own_qp] = other_qp
    return peers


def count(packets, own):
    """How many RC packets came for QPs of ours behind the last that these sent."""
    peers = peers_of(packets, own)
    late = collections.Counter()
    still_sending = set()
    for packet in reversed(packets):
        if packet.opcode >> 5 != RC:
            continue
        if packet.sender in own:
            still_sending.add(packet.destination)
        elif packet.destination in peers and peers[packet.destination] not in still_sending:
            late[packet.destination] += 1
    return sum(late.values())
