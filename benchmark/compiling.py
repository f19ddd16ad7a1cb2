"""Measures what compiling costs: time to the first result, a second shape, depth,
memory.

Every figure comes from a fresh process with an empty cache of its own."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from anabranch.packages import package
from harness import KEEP_PAGES, Row, Workload, case, contender
from models import bert, minilm

BACKENDS = ("aot_eager", "inductor", "anabranch")
MODELS: dict[str, Callable[..., Workload]] = {
    "minilm": minilm,
    "bert-base": bert,
    "bert-8-layers": lambda **k: bert(8, 256, **k),
    "bert-32-layers": lambda **k: bert(32, 256, **k),
}


class Stopwatch:
    """Adds up the time that a function takes."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable) -> Callable:
        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - start

        return call


def measure(model: str, backend: str, what: str) -> float:
    """Measures in this process.

    what  "first": seconds to the first result; "compiler": those of them that the
          compiler took; "second": seconds to the result of a second shape; "peak": the
          most memory at the first result
    """
    make = MODELS[model]
    compiler = Stopwatch()
    package.build = compiler.timed(package.build)
    work = make()
    function = contender(backend, work)
    with torch.no_grad():
        start = time.perf_counter()
        function(*work.arguments)
        first = time.perf_counter() - start
        if what == "second":
            other = tuple(argument[:, :96].clone() for argument in work.arguments)
            start = time.perf_counter()
            function(*other)
            return time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"first": first, "compiler": compiler.seconds, "peak": peak}[what]


def in_fresh_process(model: str, backend: str, what: str) -> float:
    outside = {k: v for k, v in os.environ.items() if k not in KEEP_PAGES}
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, model, backend, what],
            capture_output=True,
            text=True,
            check=False,
            env={
                **outside,
                "TORCHINDUCTOR_CACHE_DIR": cache,
                "XDG_CACHE_HOME": cache,
            },
        )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rsplit("\n", 1)[-1][:300])
    return json.loads(done.stdout.strip().rsplit("\n", 1)[-1])


def medians(
    model: str, what: str, unit: str, backends: tuple[str, ...], rounds: int
) -> list[Row]:
    """Measures the backends in turns, `rounds` times."""
    rows = {name: Row(name, unit=unit) for name in backends}
    seen: dict[str, list[float]] = {name: [] for name in backends}
    for _ in range(rounds):
        for name in backends:
            if rows[name].error:
                continue
            try:
                seen[name].append(in_fresh_process(model, name, what))
            except RuntimeError as problem:
                rows[name].error = str(problem)
    for name, values in seen.items():
        if values:
            rows[name].value = statistics.median(values)
            rows[name].low, rows[name].high = min(values), max(values)
    return list(rows.values())


@case("cold-minilm")
def cold_minilm() -> list[Row]:
    """first result of MiniLM: fresh process, empty cache, after the imports"""
    return medians("minilm", "first", "s", BACKENDS, 2)


@case("second-shape")
def second_shape() -> list[Row]:
    """first result of BERT-base at a second sequence length"""
    # The time that Dynamo takes before it calls a backend is the least for every
    # backend.
    return medians("bert-base", "second", "s", ("Dynamo alone", *BACKENDS), 1)


@case("layers-8")
def layers_8() -> list[Row]:
    """first result of 8 equal layers (BERT of width 256)"""
    return medians("bert-8-layers", "first", "s", BACKENDS, 1)


@case("layers-32")
def layers_32() -> list[Row]:
    """first result of 32 equal layers (BERT of width 256)"""
    return medians("bert-32-layers", "first", "s", BACKENDS, 1)


@case("layers-compiler")
def layers_compiler() -> list[Row]:
    """32 equal layers over 8: the compiler alone, from graph to executable"""
    times: dict[str, list[float]] = {"bert-8-layers": [], "bert-32-layers": []}
    for _ in range(3):
        for model, seen in times.items():
            seen.append(in_fresh_process(model, "anabranch", "compiler"))
    few, many = map(statistics.median, times.values())
    note = f"{few:.3f} s and {many:.3f} s; the aim is 1.5 x"
    return [Row("anabranch", many / few, "x", note=note)]


@case("memory")
def memory() -> list[Row]:
    """peak memory of a process that loads, compiles and runs MiniLM"""
    return medians("minilm", "peak", "MiB", ("eager", "inductor", "anabranch"), 1)


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
