"""Linear layers of few rows, as in generation, and products of int8: weights live
and frozen."""

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


class Quantised(torch.nn.Module):
    """A product of int8 matrices, with scales for columns and rows, in bfloat16: the
    product of the super kernel page."""

    def __init__(self, depth: int = 7168, columns: int = 4096) -> None:
        super().__init__()
        weight = torch.randint(-10, 10, (depth, columns), dtype=torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", torch.randn(columns))

    def forward(self, x: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        total = torch._int_mm(x, self.weight).float()
        return (total * self.scale * token.unsqueeze(-1)).bfloat16()


def quantised(rows: int) -> Workload:
    torch.manual_seed(0)
    module = Quantised().eval()
    x = torch.randint(-10, 10, (rows, module.weight.shape[0]), dtype=torch.int8)
    return Workload(module, (x, torch.randn(rows)))


def register_quantised(rows: int) -> None:
    def run() -> list[Row]:
        names = ("eager", "inductor", "openvino", *NAMES[2:])
        return steady(partial(quantised, rows), names, "ms", seconds=4, tolerance=0)

    run.__doc__ = f"int8 linear layer, 7168 to 4096, {rows} rows"
    case(f"linear-int8-{rows}", extra=True)(run)


def linear_gelu(rows: int, dtype: torch.dtype) -> Workload:
    torch.manual_seed(0)
    layer = torch.nn.Linear(WIDTH, 4 * WIDTH)
    module = torch.nn.Sequential(layer, torch.nn.GELU()).eval().to(dtype)
    return Workload(module, (torch.randn(rows, WIDTH).to(dtype),))


def register_gelu(rows: int, name: str, dtype: torch.dtype, tolerance: float) -> None:
    def run() -> list[Row]:
        make = partial(linear_gelu, rows, dtype)
        return steady(make, NAMES, "us", seconds=4, tolerance=tolerance)

    run.__doc__ = (
        f"linear layer of {WIDTH} to {4 * WIDTH} and gelu, {rows} rows, {name}"
    )
    case(f"linear-gelu-{rows}-{name}", extra=True)(run)


def register(rows: int, name: str, dtype: torch.dtype, tolerance: float) -> None:
    def run() -> list[Row]:
        make = partial(linear, rows, dtype)
        return steady(make, NAMES, "us", seconds=3, tolerance=tolerance)

    run.__doc__ = f"linear layer of {WIDTH}, {rows} rows, {name}"
    case(f"linear-{rows}-{name}", extra=True)(run)


for count in (1, 2, 4, 8):
    register(count, "f32", torch.float32, 1e-3)
    register(count, "bf16", torch.bfloat16, 3e-2)

for count in (1, 128, 512):
    register_gelu(count, "f32", torch.float32, 1e-3)
    register_gelu(count, "bf16", torch.bfloat16, 3e-2)
    register_gelu(count, "f16", torch.float16, 3e-3)

for count in (1, 8, 64, 864):
    register_quantised(count)
