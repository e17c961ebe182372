"""A program of ours (bench/verbs) that lives through many blocks."""

import contextlib
import json
import subprocess

from machine import Failure


class Talker:
    """A program of ours that answers each line with a line of JSON."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.greeting = self.hear()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{' '.join(self.process.args)} ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        return self.hear()

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
