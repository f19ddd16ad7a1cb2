"""Runs a build and says how far it is, although pip keeps what a build prints."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import TextIO

_STEP = re.compile(r"\[(\d+)/(\d+)\] ")


@contextlib.contextmanager
def screen() -> Iterator[TextIO | None]:
    """Where the user looks: the terminal, which pip does not take; None without one."""
    try:
        terminal = open("/dev/tty", "w", encoding="utf-8")  # noqa: SIM115
    except OSError:
        yield None
        return
    with terminal:
        yield terminal


def run(command: list[str], folder: str, environment: dict[str, str]) -> None:
    """Runs ninja. A line on the terminal counts its steps; where there is none, each
    tenth of the steps is a line on stderr, which `pip -v` shows. SystemExit: it failed,
    with what it printed."""
    printed = []
    with (
        screen() as terminal,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        tenth = 0
        for line in process.stdout:
            printed.append(line)
            if step := _STEP.match(line):
                done, total = int(step[1]), int(step[2])
                if terminal is not None:
                    _draw(terminal, done, total)
                elif done * 10 // total > tenth:
                    tenth = done * 10 // total
                    print(_text(done, total), file=sys.stderr, flush=True)
    if process.returncode:
        raise SystemExit(f"wheels: {' '.join(command)} failed:\n{''.join(printed)}")


def _text(done: int, total: int) -> str:
    return f"anabranch: compiled {done} of {total} files"


def _draw(terminal: TextIO, done: int, total: int) -> None:
    end = "\n" if done == total else ""
    terminal.write(f"\r{_text(done, total)}\x1b[K{end}")
    terminal.flush()
