"""Runs cases: contenders, interleaved timing, checks, and rows for the record.

A case is a function with a one-line description, which runs in a process of its own. It
returns one `Row` for each contender. The contenders of a steady case take turns in many
rounds, so that a slow moment of the machine hits all of them. The figure is the median
over the rounds. Each output is compared with eager's.

Every turn begins with a pause, and with as many calls as are timed after them. The
workers of each engine spin for a while after their last piece of work, those of ONNX
Runtime longest: without the pause a contender would share the cores with them. Without
the calls it would find the caches of another contender, and cores that sleep."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

import anabranch
import peers
from anabranch import anabranch as ours
from record import Row

# Cases compile what they time; `starting` measures the cache itself.
os.environ.setdefault("ANABRANCH_CACHE", "0")
# The NPU of torchair-compat is hidden from all contenders.
os.environ["ANABRANCH_NO_NPU"] = "1"
sys.modules["torch_npu"] = None  # type: ignore[assignment]

CASES: dict[str, Case] = {}

# Anabranch's contenders, and how they are compiled. Those of streams and of super
# kernels are frozen, since the peers keep weights as constants too.
OPTIONS: dict[str, dict[str, Any]] = {
    "anabranch": {},
    "anabranch frozen": {"freeze": True},
    "one stream": {"streams": "off", "freeze": True},
    "marked": {"streams": "marked", "freeze": True},
    "auto": {"streams": "auto", "freeze": True},
    "launches": {"super_kernels": "off", "freeze": True},
    "super": {"super_kernels": "marked", "freeze": True},
    "auto supers": {"super_kernels": "auto", "freeze": True},
}
# Inductor with constant weights and measured choices of kernels.
INDUCTOR_MAX = {
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
}
# Packages, called without Dynamo and its guards, as the other engines are called.
EXPORTED = "exported"
EXPORTS: dict[str, dict[str, Any]] = {
    EXPORTED: {"streams": "auto"},
    "exported launches": {"super_kernels": "off"},
    "exported super": {"super_kernels": "marked"},
    "exported auto supers": {"super_kernels": "auto"},
}
# By `anabranch.compile`, which takes sizes that the data decides into the graph.
WHOLE: dict[str, dict[str, Any]] = {
    "anabranch whole": {},
    "anabranch whole frozen": {"freeze": True},
}
OURS = (*OPTIONS, *EXPORTS, *WHOLE)
# With the scopes of the model.
MARKED = ("marked", "super", "exported super")
# The limit, which no contender can beat: `bound`.
BOUND = "bound"

# Otherwise malloc returns the pages of large results to the system and takes them
# again, in calls of the contender that is at the end of the heap.
KEEP_PAGES = {"MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_MMAP_MAX_": "0"}

# Seconds between two turns: at least, at most, and how long no thread may have run.
PAUSE, LONGEST_PAUSE, STILL = 0.015, 0.5, 0.004


@dataclass(frozen=True)
class Case:
    name: str
    describe: str
    run: Callable[[], list[Row]]
    # runs only when it is named: it takes too long for the default run
    extra: bool = False


@dataclass(frozen=True)
class Workload:
    """A function and its arguments, made anew for each contender."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def case(name: str, extra: bool = False) -> Callable[[Callable], Callable]:
    def register(function: Callable[[], list[Row]]) -> Callable[[], list[Row]]:
        describe = (function.__doc__ or "").strip().split("\n")[0]
        CASES[name] = Case(name, describe, function, extra)
        return function

    return register


def no_op_backend(module: torch.fx.GraphModule, inputs: list) -> Callable:
    """Returns the results of the first call, so that a call costs Dynamo's guards
    alone."""
    stored = module(*inputs)
    return lambda *_: stored


def with_own_code(function: Callable) -> Callable:
    """The function, or a module of this contender's own, with a copy of its code.

    Dynamo marks code that it gives up for one backend, such as a loop in which it would
    have to break the graph, and then runs it eagerly for all others."""
    if not isinstance(function, torch.nn.Module):
        return _copied(function) if isinstance(function, FunctionType) else function
    kind = type(function)
    if isinstance(kind.forward, FunctionType):
        own = {"forward": _copied(kind.forward)}
        function.__class__ = type(kind.__name__, (kind,), own)
    return function


def _copied(function: FunctionType) -> FunctionType:
    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def contender(name: str, work: Workload) -> Callable:
    function = work.function
    if name in MARKED:
        function = getattr(function, "marked", function)
    function = with_own_code(function)
    if name == "eager":
        return function
    if name == "no-op backend":
        return torch.compile(function, backend=no_op_backend)
    if name == "Dynamo alone":
        return torch.compile(function, backend="eager")
    if name == "inductor max":
        return torch.compile(function, options=INDUCTOR_MAX)
    if name in OPTIONS:
        return torch.compile(function, backend=ours, options=OPTIONS[name])
    if name in WHOLE:
        return anabranch.compile(function, **WHOLE[name])
    if name in EXPORTS:
        return deployed(function, work.arguments, **EXPORTS[name])
    if name in peers.PEERS:
        return peers.PEERS[name](function, work.arguments)
    return torch.compile(function, backend=name)


def deployed(function: Callable, arguments: tuple, **options: Any) -> Callable:
    with tempfile.TemporaryDirectory() as folder:
        anabranch.export(
            peers.Wrapped(function),
            f"{folder}/model.anb",
            arguments,
            config=anabranch.Config(**options),
        )
        return anabranch.load(f"{folder}/model.anb", threads=torch.get_num_threads())


def flatten(output: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def difference(output: Any, expected: Any) -> float:
    """The largest absolute difference; infinite where shapes or NaNs differ."""
    mine, theirs = flatten(output), flatten(expected)
    if [tuple(t.shape) for t in mine] != [tuple(t.shape) for t in theirs]:
        return float("inf")
    worst = 0.0
    for left, right in zip(mine, theirs, strict=True):
        if left.numel():
            gap = (left.double() - right.double()).abs().max().item()
            worst = float("inf") if math.isnan(gap) else max(worst, gap)
    return worst


def magnitude(output: Any) -> float:
    """The largest absolute value, at least one."""
    tensors = [t.double().nan_to_num(0, 0, 0) for t in flatten(output) if t.numel()]
    return max([1.0, *(t.abs().max().item() for t in tensors)])


def time_calls(
    function: Callable,
    arguments: tuple,
    calls: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    start = clock()
    for _ in range(calls):
        function(*arguments)
    return (clock() - start) / calls


def steady(
    make: Callable[[], Workload],
    names: tuple[str, ...] = ("eager", "inductor", "anabranch"),
    unit: str = "ms",
    seconds: float = 6.0,
    tolerance: float = 1e-3,
) -> list[Row]:
    """Times the contenders in turns, `seconds` for each of them in all. Outputs whose
    largest value is above one may differ from eager's by `tolerance` times that."""
    scale = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
    rows = {name: Row(name, unit=unit) for name in names}
    ready: dict[str, tuple[Callable, tuple, int]] = {}
    with torch.no_grad():
        reference = make()
        expected = reference.function(*reference.arguments)
        allowed = tolerance * magnitude(expected)
        for name in names:
            work = make()
            try:
                function = contender(name, work)
                output = function(*work.arguments)
                for _ in range(3):
                    function(*work.arguments)
            except peers.Absent as problem:
                rows[name].note = f"absent: {problem}"
                continue
            except Exception as problem:  # noqa: BLE001  a result, printed
                rows[name].error = f"{type(problem).__name__}: {problem}"[:300]
                continue
            rows[name].difference = gap = difference(output, expected)
            if gap > allowed:
                rows[name].error = f"wrong by {gap:.2g}"
                continue
            once = time_calls(function, work.arguments, 3)
            ready[name] = (function, work.arguments, max(1, int(0.02 / once)))
        times = rounds(ready, seconds)
    for name, values in times.items():
        ordered = sorted(value * scale for value in values)
        rows[name].value = statistics.median(ordered)
        rows[name].low = ordered[len(ordered) // 10]
        rows[name].high = ordered[len(ordered) * 9 // 10]
    return list(rows.values())


def bound(bytes_read: float, flops: float, unit: str = "ms") -> Row:
    """The larger of bytes / read bandwidth and FLOP / arithmetic. A process of its own
    measures both now: the best that all CPUs reach."""
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run(
            [
                sys.executable,
                "-c",
                "from anabranch import _C; print(_C.machine_limits())",
            ],
            env=os.environ | {"ANABRANCH_CACHE_HOME": folder},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    limits = json.loads(text)
    memory = bytes_read / limits["memory_gbs_all"] / 1e9
    arithmetic = flops / limits["gflops_all"] / 1e9
    scale = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
    note = (
        f"{bytes_read / 1e6:.0f} MB at {limits['memory_gbs_all']:.1f} GB/s,"
        f" {flops / 1e6:.0f} MFLOP at {limits['gflops_all']:.0f} GFLOP/s"
    )
    return Row(BOUND, max(memory, arithmetic) * scale, unit, note=note)


def settle() -> None:
    """Waits until no thread of this process runs."""
    end = time.perf_counter() + LONGEST_PAUSE
    time.sleep(PAUSE)
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(STILL)
        if time.process_time() - before < STILL / 10:
            return


def rounds(
    ready: dict[str, tuple[Callable, tuple, int]],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Turns of about 20 ms each. Each round begins with another contender. Pauses are
    not part of the seconds."""
    times: dict[str, list[float]] = {name: [] for name in ready}
    order = list(ready)
    left = seconds * len(order)
    while order and (left > 0 or len(times[order[0]]) < 7):
        for name in order:
            function, arguments, calls = ready[name]
            settle()
            start = time.perf_counter()
            for _ in range(calls):
                function(*arguments)
            times[name].append(time_calls(function, arguments, calls, clock))
            left -= time.perf_counter() - start
        order.append(order.pop(0))
    return times
