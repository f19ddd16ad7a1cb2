"""Branches of a model on streams of their own: marked, and found.

Prints the streams that the compiled program has, what it computes against eager,
and the time of each way to schedule it.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

import anabranch


class Towers(nn.Module):
    """Four small networks over one input: none can keep two cores busy alone."""

    def __init__(self) -> None:
        super().__init__()
        self.towers = nn.ModuleList(
            nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in "abc"))
            for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results = []
        for number, tower in enumerate(self.towers):
            with anabranch.stream(f"tower{number}"):
                results.append(tower(x))
        return torch.cat(results, -1)


def milliseconds(model: nn.Module, x: torch.Tensor) -> float:
    times = []
    for _ in range(200):
        start = time.perf_counter()
        model(x)
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    torch.manual_seed(0)
    model, x = Towers().eval(), torch.randn(16, 64)
    with torch.no_grad():
        expected = model(x)
        print(f"eager              {milliseconds(model, x):.3f} ms")
        for streams in ("off", "marked"):
            torch._dynamo.reset()
            compiled = anabranch.compile(
                model, config=anabranch.Config(streams=streams)
            )
            gap = (compiled(x) - expected).abs().max().item()
            spent = milliseconds(compiled, x)
            print(f"streams={streams:<10} {spent:.3f} ms, largest difference {gap:.1e}")
        with anabranch.profile() as trace:
            compiled(x)
    trace.report("streams.html")
    print("what ran when: streams.html")


if __name__ == "__main__":
    main()
