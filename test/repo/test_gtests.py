"""scripts/gtests.py counts what unit tests say, and a crash is a failure."""

import os
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
ONE = WHOLE + "echo '[  PASSED  ] 1 test.'"
LIST = "--gtest_list_tests"
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


def run(folder: Path, *words: str, sample: bool = False) -> subprocess.CompletedProcess:
    """scripts/gtests.py on a folder, with a sample of crossed tests or all."""
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "gtests.py", folder, *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ANABRANCH_TESTS": "sample" if sample else ""},
    )


@pytest.mark.parametrize("end", ENDS)
def test_counts(tmp_path: Path, end: str) -> None:
    script, (passed, failed, skipped) = ENDS[end]
    binary = tmp_path / "bin" / "some-test"
    binary.parent.mkdir()
    binary.write_text(HEAD + script)
    binary.chmod(0o755)
    done = run(tmp_path)
    last = done.stdout.splitlines()[-1]
    assert last == f"gtest: {passed} passed, {failed} failed, {skipped} skipped"
    assert (done.returncode == 0) == (not failed)
    assert ("[ RUN      ] Suite.One" in done.stdout) == bool(failed)


def test_a_launcher_starts_the_tests_that_are_chosen(tmp_path: Path) -> None:
    """An emulator's words come before the binary, also when it lists its tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    launched = '[ "$LAUNCHED" = yes ] || exit 3\n'
    listed = (
        f'[ "$1$2" = "{LIST}--gtest_filter=*One" ] && echo Suite. && echo "  One"\n'
    )
    told = '[ "$1" = "--gtest_filter=Suite.One" ] || exit 4\n'
    for name, body in {
        "some-test": f"{launched}{listed}[ $1 = {LIST} ] && exit\n{told}{ONE}",
        "other-test": "exit 5\n",
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}")
        (folder / name).chmod(0o755)
    words = ["--launcher", "env LAUNCHED=yes", "--filter", "*One"]
    done = run(tmp_path, "some-test", *words)
    assert done.stdout == "gtest: 1 passed, 0 failed, 0 skipped\n"


# A binary that notes which tests it runs.
CROSSED = f"""#!{sys.executable}
import sys
names = ["Plain.Alone", *(f"Numbers/Of.One/{{i}}" for i in range(20))]
for target in ("portable", "avx2", "amx", "aarch64", "neoverse_v1"):
    for case in range(12):
        names.append(f"Cases/Of.Crossed/{{target}}__case{{case}}")
    names += [f"Cases/Of.Few/{{target}}__case{{case}}" for case in range(2)]
if "{LIST}" in sys.argv:
    print("Running main() from somewhere")
    for name in names:
        suite, _, test = name.partition(".")
        print(f"{{suite}}.\\n  {{test}}  # GetParam() = 4")
else:
    ran = sys.argv[1].partition("=")[2].split(":")
    assert set(ran) <= set(names)
    open(sys.argv[0] + ".ran", "a").writelines(name + "\\n" for name in ran)
    print(f"[==========] {{len(ran)}} tests from 1 test suite ran. (3 ms total)")
    print(f"[  PASSED  ] {{len(ran)}} tests.")
"""


@pytest.mark.parametrize("sample", [True, False])
def test_a_sample_of_crossed_tests_has_each_value(tmp_path: Path, sample: bool) -> None:
    """Kernels of targets that run here are compared. A machine that does not run the
    others compiles them, so these have each case, too."""
    binary = tmp_path / "bin" / "some-test"
    binary.parent.mkdir()
    binary.write_text(CROSSED)
    binary.chmod(0o755)
    last = run(tmp_path, sample=sample).stdout
    ran = (tmp_path / "bin" / "some-test.ran").read_text().split()
    assert last == f"gtest: {len(ran)} passed, 0 failed, 0 skipped\n"
    assert len(set(ran)) == len(ran)
    found: dict[str, list[str]] = {}
    for name in ran:
        test, _, values = name.rpartition("/")
        found.setdefault(test, []).append(values)
    assert len(found["Numbers/Of.One"]) == 20
    assert len(found["Cases/Of.Few"]) == 10
    assert "Plain.Alone" in ran
    crossed = [values.split("__") for values in found["Cases/Of.Crossed"]]
    cases = {f"case{number}" for number in range(12)}
    arm = {"aarch64", "neoverse_v1"}
    for targets in (arm, {"portable", "avx2", "amx"}):
        of_these = [(target, case) for target, case in crossed if target in targets]
        assert {target for target, _ in of_these} == targets
        assert {case for _, case in of_these} == cases
        assert len(of_these) == (12 if sample else 12 * len(targets))
