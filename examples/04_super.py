"""One layer as one launch: a super kernel, marked and found.

Prints the super kernels of the compiled program, whether the results have the
same bits, and the time with and without.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

import anabranch


class Layer(nn.Module):
    """Norm, gate and projections over a few rows: ten short kernels."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with anabranch.super_kernel("stack"):
            for layer in self.layers:
                x = layer(x)
        return x


def microseconds(first: nn.Module, second: nn.Module, x: torch.Tensor) -> list[float]:
    """Medians of calls in turns."""
    times: list[list[float]] = [[], []]
    for _ in range(300):
        for model, spent in zip((first, second), times):
            start = time.perf_counter()
            model(x)
            spent.append(time.perf_counter() - start)
    return [1e6 * statistics.median(spent) for spent in times]


def main() -> None:
    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(8, 256)
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
