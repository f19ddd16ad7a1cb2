"""Python scripts in processes that a server forks: script_server.py FD [MODULE...]

The server has imported what each script would import first, which takes seconds: PyTorch,
Anabranch and the modules that it is told. It forks a process for each message of its
socket FD, and ends with the socket. A test that needs a whole new interpreter starts one
itself."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MESSAGE_BYTES = 1 << 18


class Script:
    """A running script, which is used as subprocess.Popen is: `communicate` returns what
    it wrote to stdout and stderr together."""

    returncode: int | None = None

    def __init__(self, server: Server, pid: int, output: int) -> None:
        self.server, self.pid = server, pid
        self.output = os.fdopen(output, "rb", buffering=0)
        self.said = b""

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Waits for the end, also of a script that was killed."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.output.closed:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self.output], [], [], left)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            more = self.output.read(1 << 16)
            self.said += more
            if not more:
                self.output.close()
        self._reap()
        return self.said.decode(errors="replace"), None

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()

    def _reap(self) -> None:
        if self.returncode is None:
            self.returncode = self.server.ask({"reap": self.pid})


class Server:
    """The client's side: it starts the server with the settings that PyTorch reads when
    it is imported."""

    def __init__(self, modules: Sequence[str] = (), **settings: str) -> None:
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
        with other:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno()), *modules],
                env={**os.environ, **paths, **settings},
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )

    def ask(self, message: Mapping[str, Any], *descriptors: int) -> int:
        text = json.dumps(message).encode()
        socket.send_fds(self.socket, [text], list(descriptors))
        return json.loads(self.socket.recv(MESSAGE_BYTES))

    def start(
        self, script: Path, arguments: Sequence[str], folder: Path, **settings: str
    ) -> Script:
        reader, writer = os.pipe()
        message = {
            "script": str(script),
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": {**os.environ, **settings},
        }
        try:
            return Script(self, self.ask(message, writer), reader)
        finally:
            os.close(writer)


@functools.cache
def server(number: int, modules: tuple[str, ...] = (), **settings: str) -> Server:
    """One of several servers with the same settings. Their processes differ in what a
    process draws at its start: the hashes of strings, which order sets."""
    return Server(modules, **settings)


def run(folder: Path, script: str, *arguments: str) -> tuple[int | None, str]:
    """Exit status and output of a script that runs in the folder."""
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    started = server(0).start(path, arguments, folder)
    try:
        said, _ = started.communicate(timeout=300)
    finally:
        started.kill()
    return started.returncode, said


def _serve(connection: socket.socket) -> tuple[dict[str, Any], int] | None:
    """Returns in each forked process: with what it runs, and where its output goes. In
    the server it returns None when the client has gone."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 1)
        if not text:
            return None
        message = json.loads(text)
        if "reap" in message:
            _, status = os.waitpid(message["reap"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                return message, descriptors[0]
            os.close(descriptors[0])
        connection.send(json.dumps(answer).encode())


def _become(message: dict[str, Any], output: int) -> None:
    """Runs the script as the main module of this process."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(message["folder"])
    os.environ.clear()
    os.environ.update(message["environment"])
    script = message["script"]
    sys.argv = [script, *message["arguments"]]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")


def _import_what_scripts_need(modules: Sequence[str]) -> None:
    import torch
    import torch._dynamo
    import torch.distributed

    import anabranch
    from anabranch import _C, backend

    del anabranch, backend
    _C.compiler_version()  # loads the compiler's library
    assert torch.get_num_threads() >= 1
    for name in modules:
        importlib.import_module(name)
    # A child's collections, the one at its end too, would copy the pages of all objects.
    gc.collect()
    gc.freeze()


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        # A script's first message waits in the socket meanwhile.
        _import_what_scripts_need(sys.argv[2:])
        found = _serve(connection)
    if found is not None:
        _become(*found)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
