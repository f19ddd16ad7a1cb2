"""Runs PyTorch's own tests of torch.compile with this backend instead of theirs, and
prints how many failed that a reference backend passes, and how many have graphs that
PyTorch runs in part or whole ("cut"; FILE has the reasons).

    run_suite.py PATH... --json FILE [--match REGEX] [--chunk 1/10] [--seconds 60]
                 [--again] [--reference aot_eager] [--backend anabranch]

PATH is a test file of PyTorch or a folder of them: test/inductor, test/dynamo and
test/functorch of the sources of the installed release. Every backend that a test names
is replaced: Inductor, `eager`, `aot_eager`, and the counting backends of
torch._dynamo.testing, which still count. A test that asserts on Inductor's own code
fails under both backends. The reference runs only the tests that the backend does not
pass.

Tests run in forked processes, so that a crash or a hang concerns one test. A test that
does not pass is tried again in a process of its own. FILE is written after every test,
and tests that it has are not tried again; with --again, those that the backend does not
pass are."""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import functools
import gc
import importlib.util
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.testing
import torch._inductor.compile_fx
from torch._dynamo.backends.registry import _COMPILER_FNS, lookup_backend
from torch._dynamo.utils import counters

import anabranch.report

BAD = ("failed", "crashed", "hung")
REPLACED = ("inductor", "eager", "aot_eager", "aot_eager_decomp_partition")
COUNTING = ("CompileCounter", "EagerAndRecordGraphs", "AotEagerAndRecordGraphs")
TEXT = 4000  # characters that are kept of a failure


@dataclasses.dataclass
class Substitute:
    """The backend that replaces all others."""

    backend: Callable[..., Any]
    graphs: int = 0

    def compile(self, module: Any, inputs: Any, **options: Any) -> Any:
        """`options` are those of the replaced backend."""
        del options
        self.graphs += 1
        before = counters["aot_autograd"]["total"]
        compiled = self.backend(module, inputs)
        # Tests read these two counters, which only PyTorch's own wrapper of AOTAutograd
        # changes.
        if counters["aot_autograd"]["total"] == before:
            counters["aot_autograd"].update(total=1, ok=1)
        return compiled

    def install(self) -> None:
        """Replaces the backends before the tests are imported: tests take them from
        their modules by name."""
        torch._inductor.compile_fx.compile_fx = self.compile
        for name in REPLACED:
            lookup_backend(name)
            _COMPILER_FNS[name] = self.compile
        for name in COUNTING:
            self._count_with(getattr(torch._dynamo.testing, name))

    def _count_with(self, counter: Any) -> None:
        count = counter.__call__

        def call(counting: Any, module: Any, inputs: Any) -> Any:
            count(counting, module, inputs)
            return self.compile(module, inputs)

        counter.__call__ = call


@contextlib.contextmanager
def cut_graphs() -> Iterator[list[str]]:
    """A list of the reasons why graphs are cut inside the block."""
    reasons: list[str] = []
    record = anabranch.report.record

    def note(report: dict[str, Any], *rest: Any, **added: Any) -> None:
        if reason := report.get("eager") or report.get("reason"):
            reasons.append(str(reason))
        record(report, *rest, **added)

    anabranch.report.record = note
    try:
        yield reasons
    finally:
        anabranch.report.record = record


def tests_of(path: Path) -> dict[str, type[unittest.TestCase]]:
    """The classes of the test file that have tests, by name."""
    for folder in (path.parent, path.parent.parent):
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, unittest.TestCase)
        if value.__module__ == path.stem
    }


def names_of(case: type[unittest.TestCase]) -> list[str]:
    with contextlib.suppress(Exception):
        return list(unittest.TestLoader().getTestCaseNames(case))
    return []


def run_here(test: unittest.TestCase) -> tuple[str, str]:
    """Runs a test in this process. Returns its outcome and its output."""
    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    if bad := [*result.errors, *result.failures]:
        return "failed", bad[0][1]
    if result.unexpectedSuccesses:
        return "failed", "an unexpected success"
    if result.skipped:
        return "skipped", result.skipped[0][1]
    if result.expectedFailures:
        return "skipped", "fails as expected"
    return "passed", ""


class Worker:
    """A forked process that runs one test after another. After a test that does not
    pass, the next one begins in a new process."""

    def __init__(self, run: Callable[[str], dict[str, Any]]) -> None:
        self.run = run
        self.child = 0
        self.asked = 0  # tests that the process got

    def ask(self, key: str, seconds: float) -> dict[str, Any]:
        """The value of `run` for `key` in the process, or how the process ended."""
        if not self.child:
            self._fork()
        self.asked += 1
        begin = time.monotonic()
        os.write(self.requests, f"{key}\n".encode())
        line = _line(self.answers, begin + seconds)
        if line:
            outcome = json.loads(line)
        else:
            ended = self.stop()
            outcome = {"outcome": "crashed" if ended else "hung", "text": ended}
        if outcome["outcome"] in BAD:
            outcome["said"] = self._said()
            self.stop()
        return {**outcome, "seconds": round(time.monotonic() - begin, 2)}

    def stop(self) -> str:
        """Kills the process and the processes that it started. Returns how it ended by
        itself, if it did."""
        if not self.child:
            return ""
        time.sleep(0.2)  # a pipe closes before its process has ended
        done, status = os.waitpid(self.child, os.WNOHANG)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child, signal.SIGKILL)
        if not done:
            os.waitpid(self.child, 0)
        os.close(self.requests)
        os.close(self.answers)
        self.child = self.asked = 0
        if not done:
            return ""
        if os.WIFSIGNALED(status):
            return f"died of {signal.Signals(os.WTERMSIG(status)).name}"
        return f"exited with {os.WEXITSTATUS(status)}"

    def _fork(self) -> None:
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the process
        self.child = os.fork()
        if self.child:
            os.close(requests)
            os.close(answers)
            return
        os.setsid()
        os.close(self.requests)
        os.close(self.answers)
        for stream in (1, 2):
            os.dup2(self.output.fileno(), stream)
        with os.fdopen(requests) as keys:
            for key in keys:
                answer = json.dumps(self._answer(key.strip())) + "\n"
                os.write(answers, answer.encode())
        os._exit(0)

    def _answer(self, key: str) -> dict[str, Any]:
        try:
            answer = self.run(key)
        except BaseException:  # noqa: BLE001 - it is the result
            answer = {"outcome": "failed", "text": traceback.format_exc()}
        return {**answer, "text": answer["text"][-TEXT:]}

    def _said(self) -> str:
        self.output.seek(max(0, self.output.seek(0, os.SEEK_END) - TEXT))
        return self.output.read().decode(errors="replace")


def _line(reader: int, deadline: float) -> str:
    """One line from a pipe; empty if its writer died or is late."""
    text = b""
    while not text.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return ""
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            return ""
        text += chunk
    return text.decode()


class Sweep:
    """The tests of one file under both backends."""

    def __init__(self, options: argparse.Namespace, kept: dict[str, Any]) -> None:
        self.options = options
        self.kept = kept
        # Both backends are looked up before the substitute takes the reference's name.
        backends = {
            name: lookup_backend(name) for name in (options.backend, options.reference)
        }
        self.substitute = Substitute(backends[options.reference])
        self.workers = {
            name: Worker(functools.partial(self._test, backend))
            for name, backend in backends.items()
        }
        self.tests: dict[str, unittest.TestCase] = {}

    def run(self, path: Path) -> None:
        self.substitute.install()
        for case_name, case in tests_of(path).items():
            for name in names_of(case):
                self.tests[f"{path.stem}::{case_name}.{name}"] = case(name)
        gc.freeze()  # a garbage collection in the workers would copy every page
        chunk, chunks = (int(part) for part in self.options.chunk.split("/"))
        for number, key in enumerate(self.tests):
            if number % chunks == chunk - 1 and re.search(self.options.match, key):
                self._try(key)
        for worker in self.workers.values():
            worker.stop()

    def _try(self, key: str) -> None:
        """Runs a test with the backend, and with the reference if it does not pass."""
        outcomes = self.kept.setdefault(key, {})
        mine, reference = self.options.backend, self.options.reference
        known = outcomes.get(mine)
        if known is None or (self.options.again and known["outcome"] in BAD):
            outcomes[mine] = known = self._attempt(mine, key)
            if known["outcome"] in BAD and reference not in outcomes:
                outcomes[reference] = self._attempt(reference, key)
            self._keep()
        if (said := verdict(outcomes, mine, reference)) in BAD:
            print(said, key, flush=True)

    def _attempt(self, backend: str, key: str) -> dict[str, Any]:
        """Runs a test. If it does not pass after others, it is tried once more, alone."""
        worker = self.workers[backend]
        first = not worker.asked
        outcome = worker.ask(key, self.options.seconds)
        if outcome["outcome"] in BAD and not first:
            outcome = worker.ask(key, self.options.seconds)
        return outcome

    def _test(self, backend: Callable[..., Any], key: str) -> dict[str, Any]:
        self.substitute.backend, self.substitute.graphs = backend, 0
        with cut_graphs() as cut:
            outcome, text = run_here(self.tests[key])
        graphs = self.substitute.graphs
        return {"outcome": outcome, "text": text, "graphs": graphs, "cut": cut}

    def _keep(self) -> None:
        written = self.options.json.with_suffix(".new")
        written.write_text(json.dumps(self.kept, indent=1))
        written.replace(self.options.json)


def sweep_file(path: Path, options: argparse.Namespace) -> None:
    """Runs the tests of a file in a process of its own, which this function ends."""
    try:
        Sweep(options, read(options.json)).run(path)
    except BaseException:  # noqa: BLE001 - a file that can't be imported is left out
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(0)


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}


def files_of(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("test_*.py")) if path.is_dir() else [path]


def verdict(outcomes: dict[str, Any], backend: str, reference: str) -> str:
    """The verdict on a test under the backend; "neither" if the reference does not pass
    it either."""
    mine = outcomes[backend]["outcome"]
    if mine in BAD and outcomes[reference]["outcome"] != "passed":
        return "neither"
    return mine


def table(kept: dict[str, Any], backend: str, reference: str) -> str:
    """How many tests of each file ended in each way."""
    counts: dict[str, Any] = collections.defaultdict(collections.Counter)
    for key, outcomes in kept.items():
        if backend not in outcomes:
            continue  # FILE has these results from a run of another backend
        for row in (key.partition("::")[0], "all"):
            counts[row][verdict(outcomes, backend, reference)] += 1
            counts[row]["cut"] += bool(outcomes[backend].get("cut"))
    columns = ("passed", *BAD, "neither", "skipped", "cut")
    lines = [f"| file | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for row in (*sorted(row for row in counts if row != "all"), "all"):
        cells = [str(counts[row][column]) for column in columns]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=lambda text: Path(text).resolve())
    parser.add_argument("--match", default="")
    parser.add_argument("--chunk", default="1/1")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--reference", default="aot_eager")
    parser.add_argument("--backend", default="anabranch")
    return parser.parse_args()


def main() -> int:
    options = parse()
    torch.set_num_threads(1)  # a forked process has only the thread that forked
    for path in files_of(options.paths):
        # Each file has a process of its own, so that its patches do not reach another
        # file.
        child = os.fork()
        if child == 0:
            sweep_file(path, options)
        os.waitpid(child, 0)
    print(table(read(options.json), options.backend, options.reference))
    return 0


if __name__ == "__main__":
    sys.exit(main())
