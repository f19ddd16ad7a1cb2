"""Runs every test runner, prints its output, and adds up the counts.

    test.py             everything, with a sample of crossed parameters
    test.py --all       with all of their combinations
    test.py --fast      lint without clang-tidy, gtest and lit
    test.py lint gtest  only these groups

The last line adds up all runners. The exit status is 0 if nothing failed. A runner that
ends without its counts is one failure. The end repeats the failures."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"

# Two workers share two CPUs: threads of OpenMP that spin take them from each other.
SETTINGS = {"OMP_WAIT_POLICY": "passive"}

# By which test/python/support/covering.py is asked for a sample.
SAMPLE = {"ANABRANCH_TESTS": "sample"}

# Lines by which pytest, gtest, lit and the sanitizers name what failed.
FAILURE = re.compile(
    r"(FAILED|ERROR) \S+::|\[  FAILED  \] \w+\.|FAIL: |SUMMARY: |.*Sanitizer: |---- "
)


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


def read_gtest(output: str, ok: bool) -> Counts:
    """The last line of scripts/gtests.py."""
    found = re.search(r"gtest: (\d+) passed, (\d+) failed, (\d+) skipped", output)
    return Counts(*map(int, found.groups())) if found else Counts(failed=1)


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
class Outcome:
    counts: Counts
    # Lines that name what failed, or the last ones of a runner that names nothing.
    failures: list[str]


@dataclass
class Runner:
    name: str
    command: list[str]
    read: Callable[[str, bool], Counts]
    # It keeps one core busy: two such runners run at a time.
    single: bool = False
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return self.name.split("/")[0]


def runners(fast: bool, sample: bool) -> list[Runner]:
    tools = [sys.executable, str(ROOT / "scripts" / "lint.py")]
    which = SAMPLE if sample else {}
    # Tests of one file stay together, since they share fixtures.
    pytest = [str(BIN / "pytest"), "-q", "--durations=9", "-n2", "--dist=loadfile"]
    # test/python/support/file_order.py orders the files.
    pytest.append("--no-loadscope-reorder")
    compat = [*pytest, "torchair-compat/tests"]
    # mypy takes longest, so it begins.
    lint = [
        Runner(f"lint/{name}", [*tools, name], read_check, single=True)
        for name in ("mypy", "clang-format", "ruff")
    ]
    gtests = [sys.executable, str(ROOT / "scripts" / "gtests.py"), "build"]
    lit = [str(BIN / "lit"), "-v", "-j2", "--allow-empty-runs", "test"]
    quick = [
        *lint,
        Runner("gtest", gtests, read_gtest, settings=which),
        Runner("lit", lit, read_lit),
    ]
    if fast:
        return quick
    return [
        *quick,
        Runner("lint/clang-tidy", [*tools, "clang-tidy"], read_check),
        Runner("sanitize/address", ["scripts/sanitized.sh", "address"], read_gtest),
        Runner("sanitize/thread", ["scripts/sanitized.sh", "thread"], read_gtest),
        Runner("fuzz", ["scripts/sanitized.sh", "fuzz"], read_check),
        Runner("pytest", pytest, read_pytest, settings=which),
        # Run apart: other packages take its torch_npu for an NPU if they can import it.
        Runner("compat", compat, read_pytest, settings=which),
        Runner("vllm", [*pytest, "anabranch-vllm/tests"], read_pytest),
    ]


def begin(runner: Runner) -> subprocess.Popen[str]:
    return subprocess.Popen(
        runner.command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={
            **os.environ,
            **SETTINGS,
            **runner.settings,
            "PATH": f"{BIN}:{os.environ['PATH']}",
        },
    )


def failures(lines: list[str]) -> list[str]:
    named = [line for line in lines if FAILURE.match(line)]
    return list(dict.fromkeys(named))[:40] or lines[-20:]


def run(runner: Runner) -> Outcome:
    """Prints the output as it comes, or at the end if another runner prints too."""
    title = f"==== {runner.name}: {' '.join(runner.command)}\n"
    start = time.monotonic()
    lines = []

    def say(line: str) -> None:
        lines.append(line)
        if not runner.single:
            sys.stdout.write(line)
            sys.stdout.flush()

    say(title)
    with begin(runner) as process:
        assert process.stdout
        for line in process.stdout:
            say(line)
    ok = process.returncode == 0
    counts = runner.read("".join(lines), ok)
    if not ok and counts.failed == 0:
        counts.failed = 1
    say(
        f"==== {runner.name}: {counts.passed} ok, {counts.failed} bad,"
        f" {counts.skipped} left out, {time.monotonic() - start:.0f} s\n"
    )
    if runner.single:
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
    return Outcome(counts, failures(lines) if counts.failed else [])


def run_all(chosen: list[Runner]) -> dict[str, Outcome]:
    results: dict[str, Outcome] = {}
    for single, group in itertools.groupby(chosen, key=lambda runner: runner.single):
        wave = list(group)
        with ThreadPoolExecutor(2 if single else 1) as pool:
            outcomes = pool.map(run, wave)
            names = (runner.name for runner in wave)
            results |= dict(zip(names, outcomes, strict=True))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fast", action="store_true", help="the quick subset")
    parser.add_argument("--all", action="store_true", help="all combinations")
    parser.add_argument(
        "groups", nargs="*", help="lint sanitize fuzz gtest lit pytest compat vllm"
    )
    args = parser.parse_args()
    chosen = [
        r
        for r in runners(args.fast, sample=not args.all)
        if not args.groups or r.group in args.groups
    ]
    start = time.monotonic()
    results = run_all(chosen)
    total = sum((outcome.counts for outcome in results.values()), Counts())
    print(f"{time.monotonic() - start:.0f} s in all")
    for name, outcome in results.items():
        if outcome.failures:
            print(f"not passed: {name}\n  {'  '.join(outcome.failures)}", end="")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
