"""Threads that call compiled functions with random inputs, and check each result.

    random_calls.py --seconds 3600 --threads 4

The functions stand for what a server runs: symbolic sizes, gears, tiers, frozen
weights, streams, super kernels, a cache that is updated in place, an operator that
PyTorch runs, and an input that is refused. Results are compared with those that
eager PyTorch gave beforehand. The process may not grow: its memory is read after a
first tenth of the time and at the end.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

import anabranch
from anabranch.shapes import tier_costs

SIZES = (1, 2, 3, 5, 8, 13, 16, 21, 32)
WIDTH = 48
# As a part of the largest element of a result: sums in f32 differ by their order.
TOLERANCE = 1e-5
# Memory that allocators and Python may still take after the first tenth of the calls.
GROWTH_MIB = 64
PAGES_MIB = resource.getpagesize() / 2**20


@dataclasses.dataclass(frozen=True)
class Subject:
    """A compiled function, and inputs with the results that eager gives."""

    name: str
    call: Callable[[torch.Tensor], torch.Tensor]
    cases: tuple[tuple[torch.Tensor, torch.Tensor], ...]

    def fault(self, source: random.Random) -> str | None:
        """Calls once. Returns what is wrong with the result; empty if nothing is."""
        given, expected = source.choice(self.cases)
        found = self.call(given.clone())
        difference = (found - expected).abs().max().item()
        if difference <= TOLERANCE * expected.abs().max().item():
            return None
        return f"{self.name}{list(given.shape)}: differs by {difference:.3g}"


def mlp() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 96),
        torch.nn.GELU(),
        torch.nn.LayerNorm(96),
        torch.nn.Linear(96, WIDTH),
    ).eval()


def towers(x: torch.Tensor) -> torch.Tensor:
    with anabranch.stream("side"):
        side = torch.softmax(x @ x.T, -1) @ x
    return torch.tanh(x).cumsum(0) + side


def chain(x: torch.Tensor) -> torch.Tensor:
    with anabranch.super_kernel("chain"):
        y = torch.relu(x @ x.T)
        return (y @ x).sum(1, keepdim=True) + x


def updated(x: torch.Tensor) -> torch.Tensor:
    cache = x.new_zeros(40, WIDTH)
    cache[4 : 4 + x.shape[0]] = x
    cache[:2].add_(1)
    return cache * 2


def through_pytorch(x: torch.Tensor) -> torch.Tensor:
    return torch.special.bessel_j0(x) + torch.sort(x, 1).values.abs()


def subjects(seed: int) -> list[Subject]:
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(size, WIDTH, generator=generator) for size in SIZES]
    model = mlp()
    torch._dynamo.config.recompile_limit = 64
    # Every shape gets a tier at once, so that many come and go.
    tier_costs.Gains.pay = tier_costs.Budget.has = lambda *_: True  # type: ignore[method-assign,assignment]
    tier_costs.Rest.is_present = lambda *_: True  # type: ignore[method-assign]
    compiled: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "symbolic": (model, anabranch.compile(model, dynamic=True)),
        "frozen": (model, anabranch.compile(mlp(), dynamic=True, freeze=True)),
        "tiers": (model, anabranch.compile(mlp(), shapes="tiered", fullgraph=True)),
        "streams": (towers, anabranch.compile(towers, dynamic=True)),
        "super kernel": (chain, anabranch.compile(chain, dynamic=False)),
        "updates": (updated, anabranch.compile(updated, dynamic=True)),
        "fallback": (through_pytorch, anabranch.compile(through_pytorch, dynamic=True)),
    }
    return [
        Subject(name, call, tuple((x, eager(x.clone())) for x in inputs))
        for name, (eager, call) in compiled.items()
    ]


def resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGES_MIB


class Soak:
    """Threads that call until the time is over. The first faults are kept."""

    def __init__(self, chosen: list[Subject], seconds: float):
        self.chosen = chosen
        self.end = time.monotonic() + seconds
        self.calls = 0
        self.faults: list[str] = []
        self.lock = threading.Lock()

    @torch.no_grad()  # the mode belongs to the thread
    def work(self, seed: int) -> None:
        source = random.Random(seed)
        while time.monotonic() < self.end and len(self.faults) < 10:
            try:
                fault = source.choice(self.chosen).fault(source)
            except Exception as error:  # noqa: BLE001 - errors are the result
                fault = f"{type(error).__name__}: {error}"
            with self.lock:
                self.calls += 1
                if fault:
                    self.faults.append(fault)

    def run(self, threads: int, seed: int) -> None:
        workers = [
            threading.Thread(target=self.work, args=(seed + i,)) for i in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


@torch.no_grad()
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chosen = subjects(options.seed)
    for subject in chosen:  # compiled here, once for each size
        for given, _ in subject.cases:
            subject.call(given.clone())
    first = Soak(chosen, options.seconds / 10)
    first.run(options.threads, options.seed)
    before = resident_mib()
    rest = Soak(chosen, options.seconds * 9 / 10)
    rest.run(options.threads, options.seed + 1000)
    grown = resident_mib() - before
    faults = first.faults + rest.faults
    if grown > GROWTH_MIB:
        faults.append(f"the process grew by {grown:.0f} MiB")
    for fault in faults:
        print(fault)
    print(f"{first.calls + rest.calls} calls, {len(faults)} wrong, {grown:+.0f} MiB")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
