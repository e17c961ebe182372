"""What the RNICs of the surrounding `urnic run` have sent."""

import json

import harness


def sent_bytes():
    """Bytes of all frames that the devices sent so far."""
    status = json.loads(harness.run([harness.URNIC, "status", "--json"], env=None).out)
    return sum(device["counters"]["sent_bytes"] for device in status["devices"])
