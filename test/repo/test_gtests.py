"""scripts/gtests.py counts what unit tests say, and a crash is a failure."""

import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

HEAD = """#!/bin/sh
if [ "$1" = --gtest_list_tests ]; then printf 'Suite.\\n  One\\n  Two\\n'; exit; fi
echo "[ RUN      ] Suite.One"
"""
WHOLE = """echo "[==========] 2 tests from 1 test suite ran. (3 ms total)"
"""
END = WHOLE + "echo '[  PASSED  ] 2 tests.'"
ENDS = {
    "good": (END, (2, 0, 0)),
    "one fails": (
        WHOLE
        + "echo '[  PASSED  ] 1 test.'; echo '[  FAILED  ] 1 test, listed below:'; exit 1",
        (1, 1, 0),
    ),
    "left out": (
        WHOLE
        + "echo '[  PASSED  ] 1 test.'; echo '[  SKIPPED ] 1 test, listed below:'",
        (1, 0, 1),
    ),
    "crash": ("kill -SEGV $$", (0, 1, 0)),
    "leak at the end": (WHOLE + "echo '[  PASSED  ] 2 tests.'; exit 1", (2, 1, 0)),
}


@pytest.mark.parametrize("end", ENDS)
def test_counts(tmp_path: Path, end: str) -> None:
    script, (passed, failed, skipped) = ENDS[end]
    binary = tmp_path / "bin" / "some-test"
    binary.parent.mkdir()
    binary.write_text(HEAD + script)
    binary.chmod(0o755)
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "gtests.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.splitlines()[-1]
    assert last == f"gtest: {passed} passed, {failed} failed, {skipped} skipped"
    assert (done.returncode == 0) == (not failed)
    assert ("[ RUN      ] Suite.One" in done.stdout) == bool(failed)


def test_a_launcher_starts_the_tests_that_are_chosen(tmp_path: Path) -> None:
    """An emulator's words come before the binary, also when it lists its tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    launched = '[ "$LAUNCHED" = yes ] || exit 3\n'
    told = '[ "$1" = "--gtest_filter=*One" ] || exit 4\n'
    for name, body in {"some-test": told + END, "other-test": "exit 5\n"}.items():
        head, rest = HEAD.split("\n", 1)
        (folder / name).write_text(f"{head}\n{launched}{rest}{body}")
        (folder / name).chmod(0o755)
    words = ["--launcher", "env LAUNCHED=yes", "--filter", "*One"]
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "gtests.py", tmp_path, "some-test", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "gtest: 2 passed, 0 failed, 0 skipped\n"
