"""Runs the unit tests of a build folder: gtests.py FOLDER [NAME...]

    NAME               only these binaries: native-test kernels-test
    --filter TEXT      only the tests that gtest finds by it
    --launcher TEXT    the words that each binary is started with, such as an emulator's

Each binary runs in shards, two at a time: a process of its own for each test would
load LLVM for each. The output of a shard that fails is printed. The last line has the
counts. A shard that ends before its last test is one failure.

If scripts/test.py asks for a sample, tests whose parameters are crossed run some of
their combinations: test/python/support/covering.py says which."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parent.parent / "test" / "python" / "support")
)

import covering

import captured

# Tests of one shard, roughly: what a crash keeps from running.
TESTS_OF_A_SHARD = 40
SECONDS = 900
# Targets whose kernels are compiled here, and run in an emulator or not at all.
ARM = re.compile(r"aarch64|neoverse")


@dataclass
class Shard:
    name: str
    command: list[str]
    number: int
    of: int

    @property
    def title(self) -> str:
        return f"{self.name} {self.number + 1}/{self.of}"

    def run(self) -> tuple[str, int]:
        """Its output and exit status."""
        try:
            done = captured.run(self.command, seconds=SECONDS)
        except subprocess.TimeoutExpired as late:
            said = late.stdout.decode(errors="replace") if late.stdout else ""
            return f"{said}\nended after {SECONDS} s", 1
        return done.stdout, done.returncode


def count(word: str, output: str) -> int:
    """The number that gtest prints after a word at the end."""
    found = re.findall(rf"^\[  {word} *\] (\d+) tests?\b", output, re.MULTILINE)
    return int(found[-1]) if found else 0


def tests_of(command: Sequence[str], chosen: str) -> Iterator[str]:
    """The names of the binary's tests, suite and all."""
    listed = subprocess.run(
        [*command, "--gtest_list_tests", f"--gtest_filter={chosen}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    suite = ""
    for line in listed.splitlines():
        name = line.partition("#")[0].strip()
        if line.startswith(" "):
            yield suite + name
        else:
            suite = name


def sample(tests: Sequence[str], seed: str) -> list[str]:
    """Some of the combinations of a test, in the order of the list. Targets that run here
    have each of the other values once, and so have those that may not."""
    found: dict[tuple[str, bool], dict[str, covering.Values]] = defaultdict(dict)
    for name in tests:
        test, _, given = name.rpartition("/")
        values = {(str(place), v) for place, v in enumerate(given.split("__"))}
        found[test, ARM.search(given) is not None][name] = values
    kept = {
        name
        for key, combinations in found.items()
        for name in covering.drawn(combinations, f"{seed} {key}")
    }
    return [name for name in tests if name in kept]


def shards(binary: Path, launcher: list[str], chosen: str) -> list[Shard]:
    command = [*launcher, str(binary)]
    tests = list(tests_of(command, chosen))
    if covering.asked_for():
        tests = sample(tests, covering.commit(captured.ROOT))
    of = max(1, round(len(tests) / TESTS_OF_A_SHARD))
    # Neighbours are alike, so each shard has some of them.
    parts = [tests[number::of] for number in range(of)]
    return [
        Shard(binary.name, [*command, f"--gtest_filter={':'.join(part)}"], number, of)
        for number, part in enumerate(parts)
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--filter", default="*")
    parser.add_argument("--launcher", type=shlex.split, default=[])
    return parser.parse_args()


def main() -> int:
    given = arguments()
    folder = given.folder.resolve() / "bin"
    binaries = [folder / name for name in given.names] or sorted(folder.glob("*-test"))
    todo = [
        shard
        for binary in binaries
        for shard in shards(binary, given.launcher, given.filter)
    ]
    passed = failed = skipped = 0
    with ThreadPoolExecutor(2) as pool:
        for shard, (output, status) in zip(
            todo, pool.map(Shard.run, todo), strict=True
        ):
            bad = count("FAILED", output)
            whole = re.search(r"^\[==========\] .* ran\.", output, re.MULTILINE)
            if status and not (whole and bad):
                bad += 1
            passed += count("PASSED", output)
            skipped += count("SKIPPED", output)
            failed += bad
            if bad:
                print(f"---- {shard.title}, status {status}\n{output}", flush=True)
    print(f"gtest: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
