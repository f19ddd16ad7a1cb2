"""The processes in which scripts of ranks run."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from gloo_ranks import run_ranks
from script_server import Script, server


def started(folder: Path, text: str, *arguments: str, **settings: str) -> Script:
    script = folder / "script.py"
    script.write_text(text, encoding="utf-8")
    return server(0).start(script, arguments, folder, **settings)


def test_a_script_is_the_main_module_of_its_process(tmp_path) -> None:
    text = """
import os, sys, threading
assert __name__ == "__main__" and sys.modules["__main__"].__file__ == __file__
class OfMain: pass
assert OfMain.__module__ == "__main__" and threading.active_count() == 1
print(sys.argv[1:], os.getcwd(), os.environ["WORD"], "HOME" in os.environ)
"""
    said, _ = started(tmp_path, text, "a", "b", WORD="set").communicate(60)
    assert said == f"['a', 'b'] {tmp_path} set True\n"


ENDS = {
    "itself": ("print('said')", 0, "said\n"),
    "status": ("import sys; print('said'); sys.exit(3)", 3, "said\n"),
    "error": ("raise ValueError('wrong')", 1, "ValueError: wrong\n"),
    "signal": ("import os; os.kill(os.getpid(), 6)", -6, ""),
    "exit handlers": ("import atexit; atexit.register(print, 'late')", 0, "late\n"),
}


@pytest.mark.parametrize("end", ENDS)
def test_how_a_script_ends(tmp_path, end) -> None:
    text, status, last = ENDS[end]
    script = started(tmp_path, text)
    assert script.communicate(60)[0].endswith(last)
    assert script.returncode == status
    script.kill()  # as of a process that has ended


def test_a_script_that_hangs(tmp_path) -> None:
    text = "import time; print('begun', flush=True); time.sleep(300)"
    script = started(tmp_path, text)
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        script.communicate(2)
    script.kill()
    assert script.communicate()[0] == "begun\n"
    assert script.returncode == -9 and time.monotonic() - began < 60


def test_ranks_have_different_hashes_of_strings(tmp_path) -> None:
    first, second = run_ranks(tmp_path, "print(hash('a name'))", 2)
    assert first != second
