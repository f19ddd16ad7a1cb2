"""The cases of single kernels, each with the bytes and operations that it needs at
least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness import Workload
from products import quantised

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
TOLERANCES = {"f32": 1e-3, "bf16": 0.1, "f16": 2e-2}


@dataclass(frozen=True)
class Kernel:
    """`size` are the bytes of operands and results; `multiply` is the dtype of
    multiplications. `lacking`: the compiler may have no kernel for it yet."""

    what: str
    make: Callable[[], Workload]
    flops: float
    size: float
    multiply: str = "f32"
    tolerance: float = 1e-3
    lacking: bool = False


KERNELS: dict[str, Kernel] = {}


def bytes_of(dtype: str) -> int:
    return DTYPES[dtype].itemsize


def seeded(module: nn.Module, dtype: str, *shapes: tuple[int, ...]) -> Workload:
    torch.manual_seed(0)
    for parameter in module.parameters():
        # The number of products in a sum: tolerances are for sums near one.
        depth = parameter[0].numel() if parameter.ndim > 3 else parameter.shape[-1]
        nn.init.normal_(parameter, std=depth**-0.5)
    arguments = tuple(torch.randn(shape).to(DTYPES[dtype]) for shape in shapes)
    return Workload(module.eval().to(DTYPES[dtype]), arguments)


# Linear layers


def linear(rows: int, depth: int, columns: int, gelu: bool, dtype: str) -> Workload:
    layers = [nn.Linear(depth, columns), *([nn.GELU()] if gelu else [])]
    return seeded(nn.Sequential(*layers), dtype, (rows, depth))


def add_linear(rows: int, depth: int, columns: int, gelu: bool, dtype: str) -> None:
    what = f"linear layer{' and gelu' if gelu else ''}, {rows} x {depth} x {columns}"
    values = rows * depth + depth * columns + rows * columns
    KERNELS[f"linear-{rows}x{depth}x{columns}-{dtype}"] = Kernel(
        f"{what}, {dtype}",
        partial(linear, rows, depth, columns, gelu, dtype),
        2 * rows * depth * columns,
        values * bytes_of(dtype),
        dtype,
        TOLERANCES[dtype],
    )


def add_quantised(rows: int, depth: int = 7168, columns: int = 4096) -> None:
    KERNELS[f"int8-{rows}x{depth}x{columns}"] = Kernel(
        f"int8 product and scales, {rows} x {depth} x {columns}",
        partial(quantised, rows),
        2 * rows * depth * columns,
        rows * depth + depth * columns + 2 * rows * columns,
        "int8",
        0,
    )


# Attention


class Attention(nn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, **self.settings)


def add_attention(
    name: str, heads: tuple[int, int], rows: int, keys: int, width: int, dtype: str
) -> None:
    """`heads` are those of queries, and of keys and values. The attention is causal if
    it has as many rows as keys, which halves the products."""
    queries, groups = heads
    causal = rows == keys
    settings = {"is_causal": causal} | (
        {"enable_gqa": True} if groups < queries else {}
    )
    shapes = [
        (1, count, size, width)
        for count, size in ((queries, rows), (groups, keys), (groups, keys))
    ]
    values = width * (2 * queries * rows + 2 * groups * keys)
    KERNELS[f"{name}-{keys}-{dtype}"] = Kernel(
        f"{name}: {rows} queries, {keys} keys, {queries} heads over {groups} of "
        f"{width}{', causal' if causal else ''}, {dtype}",
        lambda: seeded(Attention(**settings), dtype, *shapes),
        4 * queries * rows * keys * width / (2 if causal else 1),
        values * bytes_of(dtype),
        dtype,
        TOLERANCES[dtype],
    )


# Rows: statistics and pointwise


class Rows(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.function(*tensors)


def layer_norm_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.gelu(functional.layer_norm(x, weight.shape, weight, bias))


def rms_norm_silu(x: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight) * functional.silu(gate)


def add_rows(
    name: str, what: str, function: Callable, dtype: str, *shapes: tuple[int, ...]
) -> None:
    count = sum(torch.Size(shape).numel() for shape in (*shapes, shapes[0]))
    KERNELS[f"{name}-{dtype}"] = Kernel(
        f"{what} of {shapes[0][0]} x {shapes[0][1]}, {dtype}",
        lambda: seeded(Rows(function), dtype, *shapes),
        0,
        count * bytes_of(dtype),
        dtype,
        TOLERANCES[dtype],
    )


# Convolutions


def add_convolution(
    inputs: int, outputs: int, window: int, stride: int, side: int, dtype: str
) -> None:
    """A convolution with bias and ReLU, as a folded batch norm leaves it. With
    `outputs` 0 it is depthwise."""
    groups, outputs = (inputs, inputs) if not outputs else (1, outputs)

    def make() -> Workload:
        layer = nn.Conv2d(inputs, outputs, window, stride, window // 2, groups=groups)
        network = nn.Sequential(layer, nn.ReLU())
        return seeded(network, dtype, (1, inputs, side, side))

    after = -(-side // stride)
    weights = outputs * inputs // groups * window**2
    kind = "depthwise" if groups > 1 else "conv"
    name = f"{kind}{window}x{window}-{inputs}-{outputs}-s{stride}-{side}-{dtype}"
    KERNELS[name] = Kernel(
        f"{kind} {window} x {window}, {inputs} to {outputs} channels, stride {stride}, "
        f"{side} x {side}, and relu, {dtype}",
        make,
        2 * weights * after**2,
        (inputs * side**2 + weights + outputs * after**2) * bytes_of(dtype),
        dtype,
        TOLERANCES[dtype],
    )


# Gathered weights


class Experts(nn.Module):
    """The two layers of each expert that a token chose."""

    def __init__(self, count: int, width: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(count, inner, width))
        self.down = nn.Parameter(torch.empty(count, width, inner))

    def forward(self, x: Tensor, chosen: Tensor) -> Tensor:
        inner = functional.silu(torch.einsum("ehd,d->eh", self.up[chosen], x))
        return torch.einsum("edh,eh->d", self.down[chosen], inner)


def add_experts(dtype: str, width: int = 512, inner: int = 1536) -> None:
    def make() -> Workload:
        work = seeded(Experts(8, width, inner), dtype, (width,))
        return Workload(work.function, (*work.arguments, torch.tensor([2, 5])))

    values = 2 * 2 * width * inner
    KERNELS[f"experts-{dtype}"] = Kernel(
        f"2 of 8 experts of {width} to {inner} and back, one token, {dtype}",
        make,
        2 * values,
        values * bytes_of(dtype),
        dtype,
        TOLERANCES[dtype],
    )


# Weights of eight and four bits


class WeightOnly(nn.Module):
    """A linear layer with PyTorch's own operators for CPUs."""

    def __init__(self, bits: int, depth: int, columns: int, group: int) -> None:
        super().__init__()
        self.bits, self.group = bits, group
        scales = torch.rand(columns) / 100
        weight = torch.randint(-128, 128, (columns, depth), dtype=torch.int8)
        if bits == 4:
            nibbles = torch.randint(0, 16, (columns, depth), dtype=torch.int32)
            weight = torch._convert_weight_to_int4pack_for_cpu(nibbles, 2)
            scales = torch.rand(depth // group, columns, 2) / 100
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales.bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        if self.bits == 8:
            return torch._weight_int8pack_mm(x, self.weight, self.scales)
        return torch._weight_int4pack_mm_for_cpu(
            x, self.weight, self.group, self.scales
        )


def add_weight_only(bits: int, rows: int, depth: int, columns: int) -> None:
    def make() -> Workload:
        torch.manual_seed(0)
        module = WeightOnly(bits, depth, columns, 128).eval()
        return Workload(module, (torch.randn(rows, depth).bfloat16(),))

    KERNELS[f"int{bits}-weights-{rows}x{depth}x{columns}"] = Kernel(
        f"weights of int{bits}, bf16 rows, {rows} x {depth} x {columns}",
        make,
        2 * rows * depth * columns,
        depth * columns * bits / 8 + 2 * rows * (depth + columns),
        "bf16",
        8.0,
        lacking=True,
    )


def register() -> None:
    for dtype in DTYPES:
        for rows in (1, 16, 64, 128, 512):
            add_linear(rows, 768, 3072, True, dtype)
            add_linear(rows, 3072, 768, False, dtype)
    for rows in (1, 8, 64, 864):
        add_quantised(rows)
    for dtype in ("f32", "bf16"):
        for keys in (512, 2048):
            add_attention("prefill", (12, 12), keys, keys, 64, dtype)
        for keys in (512, 4096):
            add_attention("decode", (32, 8), 1, keys, 128, dtype)
        add_rows(
            "softmax", "softmax", partial(torch.softmax, dim=-1), dtype, (4096, 1024)
        )
        norm = (4096, 768), (768,), (768,)
        add_rows(
            "layer-norm-gelu", "layer norm and gelu", layer_norm_gelu, dtype, *norm
        )
        gated = (4096, 1024), (4096, 1024), (1024,)
        add_rows("rms-norm-silu", "RMS norm and silu", rms_norm_silu, dtype, *gated)
        for layer in (
            *((3, 64, 7, 2, 224), (64, 64, 3, 1, 56), (64, 128, 3, 2, 56)),
            *((64, 128, 1, 2, 56), (128, 128, 3, 1, 28), (256, 256, 3, 1, 14)),
            *((512, 512, 3, 1, 7), (144, 0, 3, 1, 56), (384, 0, 3, 1, 14)),
        ):
            add_convolution(*layer, dtype)
        add_experts(dtype)
    for bits in (8, 4):
        for rows in (1, 8, 64):
            add_weight_only(bits, rows, 2048, 8192)


register()
