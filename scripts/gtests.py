"""Runs the unit tests of a build folder: gtests.py FOLDER

Each binary runs in shards, two at a time: a process of its own for each test would
load LLVM for each. The output of a shard that fails is printed. The last line has the
counts. A shard that ends before its last test is one failure."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import captured

# Tests of one shard, roughly: what a crash keeps from running.
TESTS_OF_A_SHARD = 40
SECONDS = 900


@dataclass
class Shard:
    binary: Path
    number: int
    of: int

    @property
    def title(self) -> str:
        return f"{self.binary.name} {self.number + 1}/{self.of}"

    def run(self) -> tuple[str, int]:
        """Its output and exit status."""
        place = {
            "GTEST_SHARD_INDEX": str(self.number),
            "GTEST_TOTAL_SHARDS": str(self.of),
        }
        try:
            done = captured.run([self.binary], place, SECONDS)
        except subprocess.TimeoutExpired as late:
            said = late.stdout.decode(errors="replace") if late.stdout else ""
            return f"{said}\nended after {SECONDS} s", 1
        return done.stdout, done.returncode


def count(word: str, output: str) -> int:
    """The number that gtest prints after a word at the end."""
    found = re.findall(rf"^\[  {word} *\] (\d+) tests?\b", output, re.MULTILINE)
    return int(found[-1]) if found else 0


def shards(binary: Path) -> list[Shard]:
    listed = subprocess.run(
        [binary, "--gtest_list_tests"], capture_output=True, text=True, check=True
    ).stdout
    tests = len(re.findall(r"^  \S", listed, re.MULTILINE))
    of = max(1, round(tests / TESTS_OF_A_SHARD))
    return [Shard(binary, number, of) for number in range(of)]


def main() -> int:
    binaries = sorted(Path(sys.argv[1]).resolve().glob("bin/*-test"))
    todo = [shard for binary in binaries for shard in shards(binary)]
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
