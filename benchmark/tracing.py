"""The cost of a trace: tracing.py [rounds]

One process runs calls in turns, in changing order: without a trace, again without one,
and with a trace that records. A figure is the median over the rounds of a turn's time,
divided by that of the first untraced turn of the same round; once by the clock, and
once by the processor time of all threads, which other processes disturb less. The
second untraced turn shows the noise. Starting a trace and writing its file are measured
apart."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable

import torch

import anabranch
from harness import Workload
from models import minilm
from overhead import chain

TURNS = ("off", "off again", "on")


CLOCKS = {"clock": time.perf_counter, "processor": time.process_time}


def time_calls(call: Callable, arguments: tuple, calls: int) -> dict[str, float]:
    starts = {name: clock() for name, clock in CLOCKS.items()}
    for _ in range(calls):
        call(*arguments)
    return {name: (clock() - starts[name]) / calls for name, clock in CLOCKS.items()}


def one_round(
    call: Callable, arguments: tuple, calls: int, order: list[str]
) -> tuple[dict[str, dict[str, float]], float]:
    """Seconds for a call in each turn, and seconds to write the trace."""
    times = {}
    writing = 0.0
    for turn in order:
        with contextlib.ExitStack() as stack:
            if turn == "on":
                stack.enter_context(anabranch.profile())
            call(*arguments)
            times[turn] = time_calls(call, arguments, calls)
            start = time.perf_counter()
        if turn == "on":
            writing = time.perf_counter() - start
    return times, writing


def measure(name: str, work: Workload, rounds: int) -> None:
    call = torch.compile(work.function, backend=anabranch.anabranch)
    call(*work.arguments)
    with anabranch.profile() as trace:
        call(*work.arguments)
    slices = sum(event.get("cat") == "worker" for event in trace.events())
    once = time_calls(call, work.arguments, 5)["clock"]
    calls = max(3, int(0.03 / once))
    rounds_of = []
    writing = []
    order = list(TURNS)
    for _ in range(rounds):
        times, wrote = one_round(call, work.arguments, calls, order)
        rounds_of.append(times)
        writing.append(wrote / (calls + 1) / slices)
        order.append(order.pop(0))
    base = statistics.median(times["off"]["clock"] for times in rounds_of)
    print(f"{name}: {base * 1e6:.1f} us a call, {slices} slices in it")
    for clock in CLOCKS:
        figures = (
            f"{turn} {describe([t[turn][clock] / t['off'][clock] for t in rounds_of])}"
            for turn in TURNS[1:]
        )
        print(f"  by {clock}: {', '.join(figures)}")
    print(f"  {statistics.median(writing) * 1e6:.1f} us to write a slice, at the end")


def describe(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with torch.no_grad():
        measure("MiniLM, batch 1", minilm(), rounds)
        measure("10 tiny operators", chain(10), rounds)


if __name__ == "__main__":
    main()
