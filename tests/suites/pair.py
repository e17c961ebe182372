"""A server and its client, on a TCP port of their own."""

import os

import harness
import verdict

# A port that was free may be taken by the time the server binds it.
_TAKEN = ("Address already in use", "Couldn't listen", "already in use", "unable to bind")


def run_pair(server, client, timeout=60):
    """Runs `server(port)` and, once it listens, `client(port)`: command lines. Both must succeed. Returns their results;
    raises verdict.Refused."""
    with harness.xrc_domain_files(server(0)):
        return _run_pair(server, client, timeout)


def _run_pair(server, client, timeout):
    for attempt in range(4):
        port = harness.free_port()
        serving = harness.start(server(port), env=dict(os.environ))
        try:
            harness.wait_until(lambda: harness.listening(port, serving.pid) or serving.poll() is not None, timeout)
            if serving.poll() is not None:
                result = harness.finish(serving)
                if attempt < 3 and any(text in result.out + result.err for text in _TAKEN):
                    continue
                raise verdict.Refused(f"the server ended before its client came: {result}")
            client_result = harness.run(client(port), timeout, env=dict(os.environ))
            if client_result.returncode != 0:
                harness.end_group(serving)
            server_result = harness.finish(serving, timeout)
        finally:
            harness.end_group(serving)
        if (server_result.returncode, client_result.returncode) != (0, 0):
            raise verdict.Refused(f"client: {client_result} server: {server_result}")
        return server_result, client_result
    raise verdict.Refused("no free TCP port")
