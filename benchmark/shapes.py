"""Requests of changing length, and what symbolic sizes cost.

`python benchmark/shapes.py` measures 1,000 requests for each contender, each in
a process of its own in which eager answers one request of each length.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import anabranch
from anabranch import Config
from anabranch import anabranch as ours
from harness import PAUSE, Row, Workload, case, difference
from models import bert, minilm

GEARS = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128)


def request(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randint(1000, 20000, (1, length), generator=generator)
    return tokens, torch.ones_like(tokens)


def _ours(**options: Any) -> Callable:
    return lambda module: anabranch.compile(
        module, config=Config(**options), fullgraph=True
    )


CONTENDERS: dict[str, Callable] = {
    "dynamic": _ours(shapes="dynamic"),
    "tiered": _ours(shapes="tiered"),
    "eager first": _ours(shapes="tiered", eager_first=True),
    "gears": _ours(shapes="tiered", gears_pad=True),
    "inductor dynamic": lambda module: torch.compile(module, dynamic=True),
    "inductor automatic": torch.compile,
}


def serve(name: str, requests: int) -> dict[str, float]:
    """Latencies of one contender in milliseconds, without the first request."""
    module = bert().function
    compiled = CONTENDERS[name](module)
    lengths = torch.randint(
        1, 129, (requests,), generator=torch.Generator().manual_seed(7)
    )
    # Every service sees a single token early.
    lengths[0], lengths[1], lengths[10] = 40, 24, 1
    times: list[float] = []
    eager: list[float] = []
    results: dict[int, torch.Tensor] = {}  # eager's results, by length
    worst = 0.0
    with torch.no_grad():
        for length in lengths.tolist():
            arguments = request(length)
            if name == "gears" and not times:
                for tensor in arguments:
                    anabranch.set_gears(tensor, {1: GEARS})
            start = time.perf_counter()
            result = compiled(*arguments)
            times.append(time.perf_counter() - start)
            if length not in results:
                start = time.perf_counter()
                results[length] = module(*arguments)
                eager.append(time.perf_counter() - start)
            worst = max(worst, difference(result, results[length]))
    from torch._dynamo.utils import counters

    ordered = sorted(times[1:])
    median = statistics.median(ordered)
    return {
        "first": times[0] * 1e3,
        "median": median * 1e3,
        "mean": statistics.mean(ordered) * 1e3,
        "p99": ordered[len(ordered) * 99 // 100] * 1e3,
        "max": ordered[-1] * 1e3,
        "over 3 medians": sum(t > 3 * median for t in ordered),
        "all": sum(times),
        "eager": statistics.mean(eager[1:]) * 1e3,
        "compilations": counters["stats"]["unique_graphs"]
        + anabranch.counters.specialised,
        "difference": worst,
    }


def _in_process(name: str, requests: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", name, str(requests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr[-300:]}  # type: ignore[dict-item]
    return json.loads(done.stdout.splitlines()[-1])


@case("shapes", extra=True)
def shapes() -> list[Row]:
    """1,000 requests to BERT-base of 1 to 128 tokens, mean after the first"""
    return measure(1000)


def measure(requests: int) -> list[Row]:
    rows = []
    for name in CONTENDERS:
        found = _in_process(name, requests)
        row = Row(name, unit="ms", error=str(found.get("error", "")))
        if not row.error:
            row.value, row.low, row.high = found["mean"], found["median"], found["max"]
            row.difference = found["difference"]
            row.note = ", ".join(f"{key} {value:.4g}" for key, value in found.items())
        rows.append(row)
    return rows


def _static_and_dynamic(make: Callable[[], Workload], length: int) -> list[Row]:
    """Turns of a static and of a symbolic program for the same sizes."""
    arguments, other = request(length), request(length + 1)
    calls: dict[str, Callable] = {}
    times: dict[str, list[float]] = {"static": [], "dynamic": []}
    with torch.no_grad():
        for name in times:
            calls[name] = torch.compile(
                make().function, backend=ours, dynamic=name == "dynamic"
            )
            calls[name](*(other if name == "dynamic" else arguments))
        expected = make().function(*arguments)
        for _ in range(60):
            for name, function in calls.items():
                time.sleep(PAUSE)
                function(*arguments)
                start = time.perf_counter()
                output = function(*arguments)
                times[name].append(1e3 * (time.perf_counter() - start))
    rows = []
    for name, values in times.items():
        values.sort()
        row = Row(name, statistics.median(values), "ms", values[6], values[54])
        row.difference = difference(output, expected)
        rows.append(row)
    return rows


@case("dynamic")
def dynamic() -> list[Row]:
    """MiniLM-L6, batch 1, 128 tokens: symbolic sizes beside static ones"""
    return _static_and_dynamic(minilm, 128)


@case("dynamic-bert", extra=True)
def dynamic_bert() -> list[Row]:
    """BERT-base, batch 1, 128 tokens: symbolic sizes beside static ones"""
    return _static_and_dynamic(bert, 128)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(serve(sys.argv[2], int(sys.argv[3]))))
    else:
        for found in measure(int(sys.argv[1]) if sys.argv[1:] else 1000):
            print(found.contender, found.error or found.note, flush=True)
