"""Runs the random tests again and again, each time with other seeds.

    soak.py --seconds 3600            every task, in turns
    soak.py updates calls             only these tasks
    soak.py --sanitize                Python's tasks under the address sanitizer

A task runs in a process of its own, for a limited time or number of cases; then comes
the next one. The output of a task that fails is printed at once. The exit status is 0
if no task failed. `make soak` calls this script."""

from __future__ import annotations

import argparse
import collections
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import captured
import sanitized_python

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
SUPPORT = "test/python/support"
# Operators of PyTorch's database, in this many parts; a turn runs one part.
PARTS = 41
FLOATS = ("f32", "f64", "f16", "bf16")
DTYPES = (*FLOATS, "i64", "i32", "i16", "i8", "u8", "bool", "c64", "c128")
# The processors that turns compile for.
CPUS = ("host", "avx2")
# The forms in which they are called, in turns.
WAYS: tuple[list[str], ...] = (
    [],
    ["--dynamic"],
    ["--grad"],
    ["--in-place"],
    ["--dynamic"],
    ["--out"],
)


@dataclass(frozen=True)
class Task:
    """`command(turn)` and `environment(turn)` are those of one turn, with a seed of its
    own."""

    name: str
    command: Callable[[int], list[str]]
    environment: Callable[[int], dict[str, str]] = lambda turn: {}
    # It has no seed, so that one turn is enough.
    once: bool = False
    # It tests the libraries from Python, and builds nothing.
    sanitizes: bool = True


def pytest(*files: str) -> Callable[[int], list[str]]:
    command = [PYTHON, "-m", "pytest", "-q", "-x", *files]
    return lambda turn: command


def gtest(binary: str, tests: str) -> Callable[[int], list[str]]:
    command = [f"build/bin/{binary}", f"--gtest_filter={tests}", "--gtest_brief=1"]
    return lambda turn: command


def operators(turn: int) -> list[str]:
    """A part of PyTorch's samples, in one dtype and one form. PARTS is prime, so that
    each part gets each dtype and each form."""
    command = [
        PYTHON,
        "scripts/run_opinfo.py",
        "--chunk",
        f"{turn % PARTS + 1}/{PARTS}",
    ]
    command += ["--dtypes", DTYPES[turn // len(WAYS) % len(DTYPES)]]
    command += ["--cpu", CPUS[turn // PARTS % 2]]
    return command + WAYS[turn % len(WAYS)]


TASKS = (
    Task(
        "updates",
        lambda turn: [
            *(PYTHON, f"{SUPPORT}/random_updates.py", "--seconds", "60"),
            *("--seed", str(100_000 * (turn + 1)), "--cpu", CPUS[turn % 2]),
        ],
    ),
    Task(
        "regions",
        lambda turn: [
            *(PYTHON, f"{SUPPORT}/random_regions.py", "--seconds", "60"),
            *("--count", "100000", "--seed", str(100_000 * (turn + 1))),
        ],
    ),
    Task(
        "calls",
        lambda turn: [
            *(PYTHON, f"{SUPPORT}/random_calls.py", "--seconds", "60"),
            *("--threads", str(2 + turn % 3), "--seed", str(turn)),
        ],
        lambda turn: {"ANABRANCH_CACHE": "0"},
    ),
    Task(
        "torchair options",
        lambda turn: [
            *(PYTHON, "torchair-compat/tests/support/random_options.py"),
            *("--count", "60", "--seed", str(1000 * (turn + 1))),
        ],
        lambda turn: {
            "ANABRANCH_CACHE": "0",
            "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'torchair-compat'}",
        },
    ),
    Task(
        "graphs",
        pytest("test/python/operators/test_property.py"),
        lambda turn: {
            "ANABRANCH_PROPERTY": "60",
            "ANABRANCH_PROPERTY_SEED": str(turn + 1),
            "ANABRANCH_PROPERTY_CPU": CPUS[turn % 2],
        },
    ),
    Task(
        "frozen weights",
        pytest("test/python/capture/test_frozen_updates.py"),
        lambda turn: {
            "ANABRANCH_FROZEN_STEPS": "60",
            "ANABRANCH_FROZEN_SEED": str(turn + 1),
        },
    ),
    Task(
        "shared memory",
        pytest("test/python/capture/test_sharing.py"),
        lambda turn: {
            "ANABRANCH_SHARING": "40",
            "ANABRANCH_SHARING_SEED": str(1000 * (turn + 1)),
        },
    ),
    Task(
        "streams",
        pytest("test/python/streams/test_stream_order.py"),
        lambda turn: {
            "ANABRANCH_STREAM_GRAPHS": "60",
            "ANABRANCH_STREAM_SEED": str(1000 * (turn + 1)),
        },
    ),
    Task(
        "super kernels",
        pytest(
            "test/python/streams/test_super_random.py",
            "test/python/streams/test_super_order.py",
        ),
        lambda turn: {
            "ANABRANCH_SUPER_GRAPHS": "30",
            "ANABRANCH_SUPER_SEED": str(1000 * (turn + 1)),
        },
    ),
    Task(
        "runtime",
        gtest("runtime-test", "RandomPrograms.*:SuperRuns.*"),
        lambda turn: {
            "ANABRANCH_RANDOM_SEED": str(1000 * (turn + 1)),
            "ANABRANCH_RANDOM_PROGRAMS": "600",
            "ANABRANCH_SOAK_LAUNCHES": "400000",
            "ANABRANCH_RANDOM_SUPERS": "200",
            "ANABRANCH_SOAK_TILES": "800000",
        },
        sanitizes=False,
    ),
    Task("operators", operators),
    Task("marked tests", pytest("-m", "soak"), once=True, sanitizes=False),
)


def passes(task: Task, turn: int, always: Mapping[str, str]) -> bool:
    """Runs one turn. If it fails, its output is printed."""
    command = task.command(turn)
    settings = {**task.environment(turn), **always}
    start = time.monotonic()
    done = captured.run(command, settings)
    said = done.stdout.rstrip().rsplit("\n", 1)[-1]
    print(f"{task.name}, turn {turn}: {said}, {time.monotonic() - start:.0f} s")
    if done.returncode:
        again = [f"{name}={value}" for name, value in settings.items()]
        print(done.stdout, "again: " + " ".join(again + command), sep="\n", flush=True)
    return done.returncode == 0


def soak(
    tasks: list[Task], seconds: float, always: Mapping[str, str]
) -> collections.Counter[str]:
    """How often each task failed. Every task runs at least once, with the variables
    `always` of its environment."""
    end = time.monotonic() + seconds
    failed: collections.Counter[str] = collections.Counter()
    turn = 0
    todo = tasks
    while turn == 0 or (todo and time.monotonic() < end):
        for task in todo:
            if turn and time.monotonic() >= end:
                break
            failed[task.name] += not passes(task, turn, always)
        todo = [task for task in todo if not task.once]
        turn += 1
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("tasks", nargs="*", help=", ".join(task.name for task in TASKS))
    options = parser.parse_args()
    known = {task.name: task for task in TASKS}
    if unknown := [name for name in options.tasks if name not in known]:
        parser.error(f"no task {unknown[0]!r}; known: {', '.join(known)}")
    chosen = [known[name] for name in options.tasks] or list(TASKS)
    always: dict[str, str] = {}
    if options.sanitize:
        always = sanitized_python.environment()
        chosen = [task for task in chosen if task.sanitizes]
    failed = soak(chosen, options.seconds, always)
    for task in chosen:
        print(f"{task.name}: {failed[task.name] or 'nothing'} failed")
    return 1 if failed.total() else 0


if __name__ == "__main__":
    sys.exit(main())
