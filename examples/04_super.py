"""Experts as one launch: a super kernel, marked by the user or found by the compiler.

Launches run one after the other. In a super kernel a worker takes the next tile whose
inputs are ready, of any expert. The example prints the super kernels of the compiled
program, whether the results have the same bits, and the time with and without them."""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

import anabranch

EXPERTS, WIDTH, ROWS = 8, 128, 8


class Expert(nn.Module):
    """Two layers over a few rows: kernels too small for two workers."""

    def __init__(self) -> None:
        super().__init__()
        layers = [
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU())
            for _ in range(2)
        ]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Model(nn.Module):
    """The mean of independent experts."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with anabranch.super_kernel("experts"):
            return torch.stack([expert(x) for expert in self.experts]).mean(0)


def microseconds(first: nn.Module, second: nn.Module, x: torch.Tensor) -> list[float]:
    """The median time of a call of each function, in turns."""
    times: list[list[float]] = [[], []]
    for _ in range(300):
        for model, spent in zip((first, second), times):
            start = time.perf_counter()
            model(x)
            spent.append(time.perf_counter() - start)
    return [1e6 * statistics.median(spent) for spent in times]


def main() -> None:
    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(ROWS, WIDTH)
    compiled = {}
    with torch.no_grad():
        for choice in ("off", "marked"):
            torch._dynamo.reset()
            config = anabranch.Config(super_kernels=choice, freeze=True, cache=False)
            compiled[choice] = anabranch.compile(model, config=config, dynamic=False)
            compiled[choice](x)
        report = anabranch.last_report() or {}
        for entry in report["super_kernels"]:
            print(f"{entry['name']}: {entry['launches']} kernels in one launch")
        same = torch.equal(compiled["off"](x), compiled["marked"](x))
        print(f"same bits: {same}")
        alone, one = microseconds(compiled["off"], compiled["marked"], x)
    print(f"a launch for each kernel {alone:.1f} us, one launch {one:.1f} us")


if __name__ == "__main__":
    main()
