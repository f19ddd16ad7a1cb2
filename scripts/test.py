"""Runs every test runner, prints its output, and adds up the counts.

    test.py             everything
    test.py --fast      without clang-tidy, sanitizers, fuzzing and slow tests
    test.py lint gtest  only these groups

The last line adds up all runners. The exit status is 0 if nothing failed. A runner that
ends without its counts is one failure."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
        )


def read_check(output: str, ok: bool) -> Counts:
    """A linter counts as one test."""
    return Counts(passed=int(ok), failed=int(not ok))


def read_ctest(output: str, ok: bool) -> Counts:
    match = re.search(r"(\d+) tests failed out of (\d+)", output)
    if not match:
        return Counts(failed=int(not ok))
    failed, total = int(match[1]), int(match[2])
    skipped = len(re.findall(r"\*\*\*(?:Skipped|Not Run)", output))
    return Counts(total - failed - skipped, failed, skipped)


def read_lit(output: str, ok: bool) -> Counts:
    def total(*names: str) -> int:
        found = [
            re.search(rf"^\s+{n}\s*:\s*(\d+)", output, re.MULTILINE) for n in names
        ]
        return sum(int(match[1]) for match in found if match)

    return Counts(
        total("Passed", "Expectedly Failed"),
        total("Failed", "Unexpectedly Passed", "Unresolved", "Timed Out"),
        total("Unsupported", "Skipped"),
    )


def read_pytest(output: str, ok: bool) -> Counts:
    last = output.rstrip().rsplit("\n", 1)[-1]

    def total(*names: str) -> int:
        found = [re.search(rf"(\d+) {n}", last) for n in names]
        return sum(int(match[1]) for match in found if match)

    return Counts(
        total("passed", "xfailed"), total("failed", "errors?"), total("skipped")
    )


@dataclass
class Runner:
    name: str
    command: list[str]
    read: Callable[[str, bool], Counts]

    @property
    def group(self) -> str:
        return self.name.split("/")[0]


def runners(fast: bool) -> list[Runner]:
    tools = [str(ROOT / "scripts" / "lint.py")]
    # Tests of one file stay together, since they share fixtures.
    pytest = [str(BIN / "pytest"), "-q", "--durations=9", "-n2", "--dist=loadfile"]
    if fast:
        pytest += ["-m", "not slow"]
    lint = [
        Runner(f"lint/{name}", [sys.executable, *tools, name], read_check)
        for name in ("clang-format", "clang-tidy", "ruff", "mypy")
        if not (fast and name == "clang-tidy")
    ]
    ctest = ["ctest", "--test-dir", "build", "-j2", "--output-on-failure"]
    slow = [
        Runner(f"sanitize/{kind}", ["scripts/sanitized.sh", kind], read_ctest)
        for kind in ("address", "thread")
    ]
    slow.append(Runner("fuzz", ["scripts/sanitized.sh", "fuzz"], read_check))
    return [
        *lint,
        *([] if fast else slow),
        Runner("gtest", [*ctest, "--no-tests=ignore"], read_ctest),
        Runner(
            "lit",
            [str(BIN / "lit"), "-v", "-j2", "--allow-empty-runs", "test"],
            read_lit,
        ),
        Runner("pytest", pytest, read_pytest),
        # Run apart: other packages take its torch_npu for an NPU if they can import it.
        Runner("compat", [*pytest, "torchair-compat/tests"], read_pytest),
    ]


def run(runner: Runner) -> Counts:
    print(f"==== {runner.name}: {' '.join(runner.command)}", flush=True)
    start = time.monotonic()
    lines = []
    with subprocess.Popen(
        runner.command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
    ) as process:
        assert process.stdout
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
    ok = process.returncode == 0
    counts = runner.read("".join(lines), ok)
    if not ok and counts.failed == 0:
        counts.failed = 1
    print(
        f"==== {runner.name}: {counts.passed} ok, {counts.failed} bad,"
        f" {counts.skipped} left out, {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fast", action="store_true", help="the quick subset")
    parser.add_argument(
        "groups", nargs="*", help="lint sanitize fuzz gtest lit pytest compat"
    )
    args = parser.parse_args()
    chosen = [
        r for r in runners(args.fast) if not args.groups or r.group in args.groups
    ]
    start = time.monotonic()
    results = {runner.name: run(runner) for runner in chosen}
    total = sum(results.values(), Counts())
    print(f"{time.monotonic() - start:.0f} s in all")
    bad = [name for name, counts in results.items() if counts.failed]
    if bad:
        print(f"not passed: {', '.join(bad)}")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
