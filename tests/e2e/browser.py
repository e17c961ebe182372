"""Chromium without a window, driven over a pipe of its DevTools protocol: no port, no profile that stays, no network."""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import tempfile
import time

import harness

# The protocol's pipes are descriptors 3 and 4.
START = 'from=$1 to=$2; shift 2; exec "$@" 3<&"$from" 4>&"$to"'
ABOVE = 20
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,1000",
         "--remote-debugging-pipe")


def _pipe():
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, ABOVE) for end in ends]
    for end in ends:
        os.close(end)
    return high


class Browser:
    """One page. What went wrong in it is in `problems`, what it asked for in `requests`."""

    def __init__(self, test):
        self.profile = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        test.addClassCleanup(shutil.rmtree, self.profile, ignore_errors=True)
        their_in, self.out = _pipe()
        self.inp, their_out = _pipe()
        self.process = harness.start(["bash", "-c", START, "bash", their_in, their_out, "chromium", *FLAGS,
                                      f"--user-data-dir={self.profile}", "about:blank"],
                                     pass_fds=(their_in, their_out),
                                     env={**harness.clean_environment(), "HOME": str(self.profile), "TMPDIR": str(self.profile)})
        os.close(their_in)
        os.close(their_out)
        test.addClassCleanup(self._end)
        self.data, self.number, self.problems, self.requests, self.session = b"", 0, [], [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _end(self):
        harness.end_group(self.process)
        harness.finish(self.process)
        os.close(self.out)
        os.close(self.inp)

    def _message(self):
        while b"\0" not in self.data:
            if not select.select([self.inp], [], [], harness.PATIENCE_S)[0]:
                raise TimeoutError("chromium says nothing")
            more = os.read(self.inp, 1 << 20)
            if not more:
                raise EOFError(f"chromium has ended: {harness.finish(self.process)}")
            self.data += more
        text, self.data = self.data.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(parameters["exceptionDetails"])
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def evaluate(self, expression):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, expression):
        """Returns its value once it is true."""
        value, deadline = None, time.monotonic() + harness.PATIENCE_S
        while not value and time.monotonic() < deadline:
            # A page that is being left has nothing to ask.
            with contextlib.suppress(RuntimeError):
                value = self.evaluate(expression)
        if not value:
            raise TimeoutError(f"never: {expression}; {self.problems}")
        return value

    def open(self, url, wait="Number(document.documentElement.dataset.ready) > 0"):
        self.problems.clear()
        self.requests.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait_for(wait)

    def screenshot(self, file, whole=False):
        """Of what the window shows, or of the whole page."""
        more = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"]))
