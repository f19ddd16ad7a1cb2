"""Breadth: every ordinary operator against eager and Inductor, worst first.

sweep.py                  all operators with eager and us, a few minutes
sweep.py NAME ...         only those whose names contain one of these
sweep.py --inductor       Inductor too, a second or more to compile each
sweep.py --seconds 0.3    for each contender of each operator
sweep.py --threads 1      the processor's time of one thread

All contenders of an operator take turns in this process, so the ratios hold
on a busy machine; the times do not. With one thread what counts is the time
that the thread ran, which other processes disturb least.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from harness import Workload, contender, difference, flatten, rounds, time_calls
from operators import OPERATORS, Operator

RESULT = str(Path(__file__).parent.parent / "build" / "sweep.json")


@dataclass
class Result:
    name: str
    fused: bool
    microseconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    compile_seconds: float = 0.0

    def ratio(self, other: str) -> float:
        """How many times faster Anabranch is than `other`; NaN if one of them failed."""
        ours = self.microseconds.get("anabranch")
        theirs = self.microseconds.get(other)
        return theirs / ours if ours and theirs else math.nan


def arguments_of(operator: Operator) -> tuple:
    generator = torch.Generator().manual_seed(0)
    return tuple(maker(generator) for maker in operator.makers)


def tolerance(expected: object) -> float:
    """The absolute tolerance, for values as large as the largest."""
    worst = 0.0
    for tensor in flatten(expected):
        finite = tensor.double().nan_to_num(0, 0, 0)
        top = finite.abs().max().item() if tensor.numel() else 0.0
        share = {torch.bfloat16: 0.04, torch.float16: 0.01}.get(tensor.dtype, 1e-3)
        worst = max(worst, share * max(top, 1e-3))
    return worst


def measure(
    operator: Operator,
    names: tuple[str, ...],
    seconds: float,
    clock: Callable[[], float],
) -> Result:
    result = Result(operator.name, operator.fused)
    arguments = arguments_of(operator)
    expected = operator.function(*arguments)
    ready = {}
    for name in names:
        torch._dynamo.reset()
        try:
            start = time.perf_counter()
            function = contender(name, Workload(operator.function, arguments))
            output = function(*arguments)
            if name == "anabranch":
                result.compile_seconds = time.perf_counter() - start
        except Exception as problem:  # noqa: BLE001  a result, printed
            result.errors[name] = f"{type(problem).__name__}: {problem}"[:300]
            continue
        gap = difference(finite(output), finite(expected))
        if gap > tolerance(expected):
            result.errors[name] = f"wrong by {gap:.2g}"
        once = time_calls(function, arguments, 2, clock)
        ready[name] = (function, arguments, max(1, int(0.01 / max(once, 1e-6))))
    for name, values in rounds(ready, seconds, clock).items():
        result.microseconds[name] = statistics.median(values) * 1e6
    return result


def finite(output: object) -> list[torch.Tensor]:
    """Infinities equal each other, but their difference is no number."""
    return [tensor.double().nan_to_num(0, 1e30, -1e30) for tensor in flatten(output)]


def geometric_mean(values: list[float]) -> float:
    known = [math.log(value) for value in values if not math.isnan(value)]
    return math.exp(sum(known) / len(known)) if known else math.nan


def print_table(results: list[Result], names: tuple[str, ...]) -> None:
    others = [name for name in names if name != "anabranch"]
    heads = [f"{name} us" for name in names] + [f"ours / {name}" for name in others]
    print("| operator | " + " | ".join(heads) + " | compile s |")
    print("|---" * (len(heads) + 2) + "|")

    def worst(result: Result) -> float:
        known = [r for r in map(result.ratio, others) if not math.isnan(r)]
        return min(known, default=0.0)

    for result in sorted(results, key=worst):
        cells = [f"{result.microseconds.get(name, math.nan):.0f}" for name in names]
        cells += [f"{result.ratio(name):.2f}x" for name in others]
        label = result.name + (" (fused)" if result.fused else "")
        print(f"| {label} | {' | '.join(cells)} | {result.compile_seconds:.2f} |")
        for name, error in result.errors.items():
            print(f"    {result.name}, {name}: {error}")
    for name in others:
        ratios = [result.ratio(name) for result in results]
        slower = sum(ratio < 0.9 for ratio in ratios)
        mean = geometric_mean(ratios)
        print(f"{name}: geometric mean {mean:.2f}x, below 0.9x: {slower}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of operators' names")
    parser.add_argument("--inductor", action="store_true", help="as a peer too")
    parser.add_argument("--seconds", type=float, default=0.3, help="per contender")
    parser.add_argument("--threads", type=int, help="of every contender")
    parser.add_argument("--json", default=RESULT, help="output file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
        os.environ["ANABRANCH_NUM_THREADS"] = str(arguments.threads)
    clock = time.thread_time if arguments.threads == 1 else time.perf_counter
    names: tuple[str, ...] = ("eager", "inductor", "anabranch")
    if not arguments.inductor:
        names = ("eager", "anabranch")
    results = []
    with torch.no_grad():
        for operator in OPERATORS:
            wanted = not arguments.names or any(
                part in operator.name for part in arguments.names
            )
            if not wanted:
                continue
            results.append(measure(operator, names, arguments.seconds, clock))
            last = results[-1]
            print(f"{last.ratio('eager'):6.2f}x {last.name}", flush=True)
    print_table(results, names)
    Path(arguments.json).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.json).write_text(json.dumps([asdict(r) for r in results], indent=1))
    return 1 if any("anabranch" in result.errors for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
