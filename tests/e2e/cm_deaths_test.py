"""Programs of librdmacm that die in each state of a connection, or close their channel with events queued; and the errors
that its callers get.

Puppets (cm_calls.py) make the steps of one connection; after each step one of them is ended in one of two ways, and the other
has to hear of it. A thousand times, and the daemon keeps nothing. Under `urnic run --standalone`.
"""

import json
import os
import subprocess
import time

import cm_calls
import cm_test
import harness

SERVER, CLIENT = cm_test.SERVER, cm_test.CLIENT
PORT = 6000
GROUP = "239.1.2.3"
ROUNDS = 1000
# Multicast groups, tables and allocators of the daemon get their size.
WARM_UP = 150

# Who does what, and what it returns. An event is taken out in a step of its own, so it waits in the step before.
CONNECTION = (
    ("server", "create", ["s"], None),
    ("server", "bind", ["s", SERVER, PORT], None),
    ("server", "listen", ["s"], None),
    ("client", "create", ["c"], None),
    ("client", "resolve", ["c", CLIENT, SERVER, PORT], None),
    ("client", "take", [], [cm_calls.ADDR_RESOLVED, 0]),
    ("client", "route", ["c"], None),
    ("client", "take", [], [cm_calls.ROUTE_RESOLVED, 0]),
    ("client", "connect", ["c"], None),
    ("server", "wait", [], True),
    ("server", "take", ["child"], [cm_calls.CONNECT_REQUEST, 0]),
    ("server", "accept", ["child"], None),
    ("client", "wait", [], True),
    ("client", "take", [], [cm_calls.CONNECT_RESPONSE, 0]),
    ("client", "establish", ["c"], None),
    ("server", "take", [], [cm_calls.ESTABLISHED, 0]),
    ("client", "disconnect", ["c"], None),
    ("server", "take", [], [cm_calls.DISCONNECTED, 0]),
    ("server", "disconnect", ["child"], None),
    ("client", "wait", [], True),
    ("client", "take", [], [cm_calls.DISCONNECTED, 0]),
    ("server", "destroy", ["child"], None),
    ("client", "destroy", ["c"], None),
)
# Of a datagram service: the request is the whole of it.
SERVICE = (
    ("server", "create", ["s", cm_calls.PS_UDP], None),
    ("server", "bind", ["s", SERVER, PORT], None),
    ("server", "listen", ["s"], None),
    ("client", "create", ["c", cm_calls.PS_UDP], None),
    ("client", "resolve", ["c", CLIENT, SERVER, PORT], None),
    ("client", "take", [], [cm_calls.ADDR_RESOLVED, 0]),
    ("client", "join", ["c", GROUP], None),
    ("client", "take", [], [cm_calls.MULTICAST_JOIN, 0]),
    ("client", "route", ["c"], None),
    ("client", "take", [], [cm_calls.ROUTE_RESOLVED, 0]),
    ("client", "connect", ["c"], None),
    ("server", "wait", [], True),
    ("server", "take", ["child"], [cm_calls.CONNECT_REQUEST, 0]),
    ("server", "accept", ["child"], None),
    ("client", "wait", [], True),
    ("client", "take", [], [cm_calls.ESTABLISHED, 0]),
)


def position(script, call, number=0):
    return [i for i, step in enumerate(script) if step[1] == call][number]


def told(script, victim, done):
    """Of which events the other side hears one when the victim dies after `done` steps; none: nothing that it could count on."""
    last = done - 1
    if script is SERVICE:
        asked = position(script, "connect") <= last < position(script, "accept")
        return [cm_calls.UNREACHABLE] if victim == "server" and asked else []
    if last < position(script, "connect") or last >= position(script, "disconnect", 1):
        return []
    if last >= position(script, "establish"):
        if victim == "client":
            return [cm_calls.DISCONNECTED] if last < position(script, "take", 5) else []
        # The server may be gone before it has heard that the connection is established.
        return [cm_calls.DISCONNECTED] + ([cm_calls.REJECTED] if last == position(script, "establish") else [])
    # Who has not accepted yet hears nothing: the request is gone when it tries to.
    return [] if victim == "client" and last < position(script, "accept") else [cm_calls.REJECTED]


class Deaths(harness.TestCase):
    def setUp(self):
        self.puppets = {}
        self.addCleanup(lambda: [puppet.kill() for puppet in self.puppets.values()])

    def status(self):
        out = subprocess.run([harness.URNIC, "status", "--json"], env=dict(os.environ), capture_output=True, text=True, check=True)
        return json.loads(out.stdout)

    @staticmethod
    def remembered(status):
        """Answers that peers may ask for again: they are bounded, and go by themselves after a minute or two."""
        return sum(device["cm"]["remembered"] for device in status["devices"])

    def kept(self):
        """What the daemon keeps of connections, living processes' channels apart."""
        status = self.status()
        known = {puppet.pid for puppet in self.puppets.values()}
        kept = {name: sum(device["cm"][name] for device in status["devices"]) for name in ("records", "half_open", "listeners")}
        kept["records"] -= self.remembered(status)
        kept["groups"] = sum(device["mcast_groups"] for device in status["devices"])
        kept["ids"] = sum(client.get("cm_ids", 0) for client in status["clients"])
        kept["dead"] = len([client for client in status["clients"] if client["pid"] not in known])
        return kept

    def footprint(self):
        """(footprint, answers kept) once nothing else is left; timewait has its time."""
        self.assertTrue(harness.wait_until(lambda: not any(self.kept().values()), 60, pause=0.1), self.kept())
        status = self.status()
        return harness.Footprint(status["daemon"]["pid"]), self.remembered(status)

    def round(self, script, done, victim, closes):
        for name in ("server", "client"):
            if name not in self.puppets:
                self.puppets[name] = cm_calls.Puppet()
        for who, call, arguments, result in script[:done]:
            self.assertEqual(getattr(self.puppets[who], call)(*arguments), result, (who, call))
        if closes:
            self.puppets[victim].renew_channel()
        else:
            self.puppets.pop(victim).kill()
        other = self.puppets["client" if victim == "server" else "server"]
        if events := told(script, victim, done):
            other.take_until(*events)
        other.renew_channel()

    def test_in_each_state(self):
        cases = [(script, done, victim, closes) for script in (CONNECTION, SERVICE) for done in range(1, len(script) + 1)
                 for victim in ("client", "server") for closes in (False, True)]
        before = None
        for number in range(ROUNDS + WARM_UP):
            if number == WARM_UP:
                before = self.footprint()
            script, done, victim, closes = case = cases[number % len(cases)]
            with self.subTest(number=number, steps=done, last=script[done - 1][:2], victim=victim, closes=closes):
                self.round(*case)
            if self._outcome.result.failures or self._outcome.result.errors:
                return
        (before, answers_before), (after, answers) = before, self.footprint()
        # Threads of their own close and unmap what dead programs had.
        harness.wait_until(lambda: harness.Footprint(after.pid).mappings <= before.mappings + 8, 60, pause=0.1)
        after = harness.Footprint(after.pid)
        self.assertLessEqual(after.descriptors, before.descriptors + 4)
        self.assertLessEqual(after.mappings, before.mappings + 8)
        # A record takes about 900 bytes.
        self.assertLessEqual(after.resident_kb, before.resident_kb + max(0, answers - answers_before) + 256)


class Errors(harness.TestCase):
    """What the calls that a program makes fail with; errno as the kernel's own rdma_cm gives it."""

    def setUp(self):
        self.one, self.other = cm_calls.Puppet(), cm_calls.Puppet()
        self.addCleanup(self.one.kill)
        self.addCleanup(self.other.kill)

    def to_route(self, puppet, name, port):
        """An id that may connect."""
        puppet.create(name)
        puppet.resolve(name, CLIENT, SERVER, port)
        self.assertEqual(puppet.take(), [cm_calls.ADDR_RESOLVED, 0])
        puppet.route(name)
        self.assertEqual(puppet.take(), [cm_calls.ROUTE_RESOLVED, 0])

    def test_addresses(self):
        for name, address, error in (("nobody's", "203.0.113.9", "EADDRNOTAVAIL"), ("ours", SERVER, None), ("any", "0.0.0.0", None)):
            self.one.create(name)
            self.assertEqual(self.one.error("bind", name, address, 6100 if name != "any" else 6101), error, name)
        self.assertEqual(self.one.error("bind", "ours", SERVER, 6102), "EINVAL")  # it has one
        self.one.create("client")
        self.assertEqual(self.one.error("resolve", "client", None, "203.0.113.9", 6100), "ENETUNREACH")
        self.one.create("other client")
        self.assertEqual(self.one.error("resolve", "other client", "203.0.113.9", SERVER, 6100), "EADDRNOTAVAIL")

    def test_ports(self):
        self.one.create("first")
        self.one.bind("first", SERVER, 6110)
        for puppet in (self.one, self.other):
            puppet.create("second")
            self.assertEqual(puppet.error("bind", "second", SERVER, 6110), "EADDRINUSE")
            self.assertEqual(puppet.error("bind", "second", "0.0.0.0", 6110), "EADDRNOTAVAIL")
            self.assertIsNone(puppet.error("bind", "second", CLIENT, 6110))  # another address
            puppet.destroy("second")
        # Shared while nobody listens.
        for name in ("a", "b"):
            self.one.create(name)
            self.one.reuse(name)
            self.one.bind(name, SERVER, 6111)
        self.assertEqual(self.one.error("listen", "a"), "EADDRINUSE")
        self.one.destroy("b")
        self.assertIsNone(self.one.error("listen", "a"))
        # A process's ports are free when it is gone.
        self.one.kill()
        self.other.create("heir")
        self.assertTrue(harness.wait_until(lambda: self.other.error("bind", "heir", SERVER, 6110) is None, 20))

    def test_order(self):
        self.one.create("id")
        self.assertEqual(self.one.error("disconnect", "id"), "EINVAL")
        self.assertEqual(self.one.error("reject", "id"), "EINVAL")
        self.assertEqual(self.one.error("take_at_once"), "EAGAIN")
        self.one.listen("id")  # on a port that is drawn
        self.assertNotEqual(self.one.port("id"), 0)
        self.assertEqual(self.one.error("listen", "id"), "EINVAL")
        self.to_route(self.other, "client", 6120)
        self.assertEqual(self.other.error("accept", "client"), "EINVAL")
        self.other.connect("client")
        self.assertEqual(self.other.error("connect", "client"), "EINVAL")
        self.assertEqual(self.other.take(), [cm_calls.REJECTED, 8])  # nobody listens there

    def dropped(self):
        out = subprocess.run([harness.URNIC, "status", "--json"], env=dict(os.environ), capture_output=True, text=True, check=True)
        return sum(device["cm"]["dropped_backlog"] for device in json.loads(out.stdout)["devices"])

    def test_full_backlog(self):
        """What does not fit goes unanswered, and gets in when it asks again and there is room."""
        self.one.create("s")
        self.one.bind("s", SERVER, 6130)
        self.one.listen("s", 2)
        before = self.dropped()
        for name in "abc":
            self.to_route(self.other, name, 6130)
            self.other.connect(name)
        self.assertTrue(harness.wait_until(lambda: self.dropped() > before, 20))
        for name in "xyz":
            self.assertEqual(self.one.take(name), [cm_calls.CONNECT_REQUEST, 0])
            self.one.accept(name)
        for _ in "abc":
            self.assertEqual(self.other.take(), [cm_calls.CONNECT_RESPONSE, 0])


if __name__ == "__main__":
    harness.main()
