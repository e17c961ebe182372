"""Plug-in of pytest: the fixture `rnics`."""

import os

import pytest

import urnic
import urnic_faults


@pytest.fixture(scope="session")
def urnic_daemon():
    """The daemon of the session: that of `urnic run` when pytest is under it, otherwise one of its own."""
    if "URNIC_RUN_DIR" in os.environ:
        yield
        return
    with urnic.standalone():
        yield


@pytest.fixture
def rnics(urnic_daemon):  # pylint: disable=redefined-outer-name,unused-argument
    """Names of the RNICs, `["urnic0", "urnic1"]` on a wire unless pytest is under `urnic run` with others. Programs that the test starts
    see them. Faults that the test adds end with it."""
    before = {fault.id for fault in urnic_faults.faults()}
    yield urnic.device_names()
    for fault in urnic_faults.faults():
        if fault.id not in before:
            fault.remove()
