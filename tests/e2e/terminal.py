"""A terminal, by tmux: a program in it, what it shows, keys, and sizes."""

import os
import subprocess

import harness


class Terminal:
    """Runs a shell command in a terminal of its own, with a tmux server of its own at `directory`/tmux."""

    def __init__(self, directory, command, width=80, height=24, environment=None):
        self.tmux = ["tmux", "-S", os.path.join(directory, "tmux"), "-f", "/dev/null"]
        self.environment = dict(environment or harness.clean_environment(), LC_ALL="C.UTF-8")
        # A tmux around this test has nothing to do with it.
        self.environment.pop("TMUX", None)
        self.call("new-session", "-d", "-x", str(width), "-y", str(height), "sh", "-c", command)

    def call(self, *words):
        """A command of tmux's; what it printed."""
        # Its server lives on with the descriptors that it is started with.
        result = subprocess.run([*self.tmux, *words], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=harness.PATIENCE_S, check=False)
        assert result.returncode == 0, f"tmux {words}: {result.stderr}"
        return result.stdout

    def end(self):
        subprocess.run([*self.tmux, "kill-server"], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=harness.PATIENCE_S, check=False)

    def screen(self, *options):
        return self.call("capture-pane", "-p", *options)

    def press(self, *keys):
        self.call("send-keys", *keys)

    def resize(self, width, height):
        self.call("resize-window", "-x", str(width), "-y", str(height))

    def value(self, name):
        """Of a variable of tmux's: "alternate_on"."""
        return self.call("display-message", "-p", f"#{{{name}}}").strip()

    def wait_for(self, condition, timeout=harness.PATIENCE_S):
        """The first screen of which `condition` holds. Raises AssertionError with the last one otherwise."""
        last = [""]

        def holds():
            last[0] = self.screen()
            return condition(last[0])

        if not harness.wait_until(holds, timeout, pause=0.05):
            raise AssertionError(f"the terminal shows\n{last[0]}")
        return last[0]
