"""A build says how far it is: on the terminal, or to `pip -v`."""

import contextlib
import io
import sys
from pathlib import Path

import pytest

import wheel_support  # noqa: F401 - finds `wheels`
from wheels import steps

STEPS = "for i in range(1, 41): print(f'[{i}/40] Building CXX object x.o')"


def test_a_terminal_counts_the_files(tmp_path: Path, monkeypatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(steps, "screen", lambda: contextlib.nullcontext(terminal))
    steps.run([sys.executable, "-c", STEPS], str(tmp_path), {})
    drawn = terminal.getvalue().split("\r")[1:]
    assert len(drawn) == 40 and drawn[-1].endswith("\n")
    assert drawn[2].startswith("anabranch: compiled 3 of 40 files")


def test_without_a_terminal_each_tenth_is_a_line(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(steps, "screen", lambda: contextlib.nullcontext(None))
    steps.run([sys.executable, "-c", STEPS], str(tmp_path), {})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10 and lines[-1] == "anabranch: compiled 40 of 40 files"


def test_a_build_that_fails_shows_what_it_printed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(steps, "screen", lambda: contextlib.nullcontext(None))
    failing = "print('[1/2] x'); print('error: no such file'); raise SystemExit(1)"
    with pytest.raises(SystemExit, match="error: no such file"):
        steps.run([sys.executable, "-c", failing], str(tmp_path), {})
