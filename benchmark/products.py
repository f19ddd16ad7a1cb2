"""Linear layers of few rows, as in generation: weights live and frozen."""

from __future__ import annotations

from functools import partial

import torch

from harness import Row, Workload, case, steady

NAMES = ("eager", "inductor", "anabranch", "anabranch frozen")
WIDTH = 768


def linear(rows: int, dtype: torch.dtype) -> Workload:
    torch.manual_seed(0)
    module = torch.nn.Linear(WIDTH, WIDTH).eval().to(dtype)
    return Workload(module, (torch.randn(rows, WIDTH).to(dtype),))


def register(rows: int, name: str, dtype: torch.dtype, tolerance: float) -> None:
    def run() -> list[Row]:
        make = partial(linear, rows, dtype)
        return steady(make, NAMES, "us", seconds=3, tolerance=tolerance)

    run.__doc__ = f"linear layer of {WIDTH}, {rows} rows, {name}"
    case(f"linear-{rows}-{name}", extra=True)(run)


for count in (1, 2, 4, 8):
    register(count, "f32", torch.float32, 1e-3)
    register(count, "bf16", torch.bfloat16, 3e-2)
