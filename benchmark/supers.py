"""Measures super kernels: a launch for each operator, marked scopes, automatic ones.

Each workload's `forward` takes `marked`: whether its layers are in scopes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

import anabranch
import streams
from harness import Row, Workload, bound, case
from streams import experts, mlp, workload

NAMES = (
    "eager",
    "inductor",
    "openvino",
    "onnxruntime",
    "launches",
    "super",
    "auto supers",
    "exported launches",
    "exported super",
    "exported auto supers",
)
# Peers that cannot update an argument, or lack an operator, are left out.
COMPILERS = tuple(name for name in NAMES if name not in ("openvino", "onnxruntime"))


def inside(scope: str, marked: bool) -> contextlib.AbstractContextManager:
    return anabranch.super_kernel(scope) if marked else contextlib.nullcontext()


def chain(rows: int, width: int, layers: int) -> Workload:
    """Linear layers, with an activation between each two."""
    network = mlp(*[width] * (layers + 1))

    def function(marked: bool, x: Tensor) -> Tensor:
        with inside("chain", marked):
            return network(x)

    return workload(function, torch.randn(rows, width))


def blocks(rows: int, width: int, count: int) -> Workload:
    """Norm, linear, GELU, linear and the residual, several times."""
    layers = [
        nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        )
        for _ in range(count)
    ]

    def function(marked: bool, x: Tensor) -> Tensor:
        with inside("blocks", marked):
            for layer in layers:
                x = x + layer(x)
        return x

    return workload(function, torch.randn(rows, width))


class LlamaLayer(nn.Module):
    """One token of a decoder layer, which updates the caches in place."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ParameterList([torch.ones(width), torch.ones(width)])
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def rotate(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        low, high = x.chunk(2, -1)
        return x * cosine + torch.cat([-high, low], -1) * sine

    def forward(
        self,
        x: Tensor,
        position: Tensor,
        angles: tuple[Tensor, Tensor],
        mask: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        batch, width = x.shape
        normal = functional.rms_norm(x, (width,), self.norms[0], 1e-5)
        parts = self.qkv(normal).view(batch, 3, self.heads, 1, -1).unbind(1)
        query, key = (self.rotate(part, *angles) for part in parts[:2])
        keys.index_copy_(2, position, key)
        values.index_copy_(2, position, parts[2])
        seen = functional.scaled_dot_product_attention(query, keys, values, mask)
        x = x + self.out(seen.reshape(batch, width))
        normal = functional.rms_norm(x, (width,), self.norms[1], 1e-5)
        inner = functional.silu(self.gate(normal)) * self.up(normal)
        return x + self.down(inner)


def decode(
    batch: int,
    layers: int = 12,
    width: int = 768,
    context: int = 512,
    a_scope_a_layer: bool = False,
) -> Workload:
    """One step of a decoder: rotary attention over a cache, and a gated MLP."""
    heads, hidden = width // 64, 8 * width // 3
    stack = [LlamaLayer(width, heads, hidden).eval() for _ in range(layers)]
    caches = torch.randn(2 * layers, batch, heads, context, 64)
    angle = torch.outer(torch.arange(context), 10000.0 ** -(torch.arange(32) / 32))
    tables = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()

    def function(marked: bool, x: Tensor, position: Tensor, *caches: Tensor) -> Tensor:
        scope = contextlib.nullcontext() if a_scope_a_layer else inside("step", marked)
        with scope:
            angles = tables[0][position], tables[1][position]
            mask = torch.arange(context) <= position
            for number, layer in enumerate(stack):
                each = a_scope_a_layer and marked
                with inside(f"layer{number}", each):
                    pair = caches[2 * number : 2 * number + 2]
                    x = layer(x, position, angles, mask[None, None, None], *pair)
        return x

    position = torch.tensor([context - 1])
    return workload(function, torch.randn(batch, width), position, *caches.unbind())


def decode_bound(
    batch: int, layers: int = 12, width: int = 768, context: int = 512
) -> Row:
    """The least time: every weight and every row of the caches is read once."""
    weights = layers * (4 * width * width + 3 * width * (8 * width // 3))
    caches = 2 * layers * batch * context * width
    return bound(4 * (weights + caches), 2 * (batch * weights + caches))


def mixture(batch: int, width: int = 256, count: int = 8) -> Workload:
    """Every expert reads every row."""
    plain = experts(batch, count, width).function

    def function(marked: bool, x: Tensor) -> Tensor:
        with inside("experts", marked):
            return plain(x)

    return workload(function, torch.randn(batch, width))


def quantised(m: int = 864, k: int = 7168, n: int = 4096) -> Workload:
    """The product of int8 matrices whose result is dequantised, gated and
    quantised again."""
    import torch_npu

    left, right = (
        torch.randint(-10, 10, s, dtype=torch.int8) for s in ((m, k), (k, n))
    )
    weight = torch_npu.npu_format_cast(right.npu().contiguous(), 29)

    def function(
        marked: bool, x: Tensor, scale: Tensor, token_scale: Tensor, swiglu: Tensor
    ) -> tuple[Tensor, ...]:
        with inside("sp1", marked):
            product = torch_npu.npu_quant_matmul(
                x,
                weight,
                scale,
                pertoken_scale=token_scale,
                output_dtype=torch.bfloat16,
            )
            result = torch_npu.npu_dequant_swiglu_quant(product, weight_scale=swiglu)
        return *result, product

    arguments = left, torch.randn(n), torch.randn(m), torch.randn(m, n)
    return workload(function, *arguments)


def compare(
    make: Callable[[], Workload], unit: str = "us", names: tuple[str, ...] = NAMES
) -> list[Row]:
    return streams.compare(make, unit, names=names)


@case("supers-chain-64", extra=True)
def narrow_chain() -> list[Row]:
    """8 linears, 64 wide, 64 rows"""
    return compare(lambda: chain(64, 64, 8))


@case("supers-chain-256", extra=True)
def wide_chain() -> list[Row]:
    """8 linears, 256 wide, 32 rows"""
    return compare(lambda: chain(32, 256, 8))


@case("supers-chain-1", extra=True)
def vector_chain() -> list[Row]:
    """8 linears, 256 wide, one row"""
    return compare(lambda: chain(1, 256, 8))


@case("supers-blocks", extra=True)
def residual_blocks() -> list[Row]:
    """6 blocks of norm, linear, GELU, linear and residual, 128 wide, 64 rows"""
    return compare(lambda: blocks(64, 128, 6))


@case("supers-experts-1", extra=True)
def one_row_of_experts() -> list[Row]:
    """8 experts of 2 linears, 256 wide, batch 1"""
    return compare(lambda: mixture(1))


@case("supers-experts-4", extra=True)
def four_rows_of_experts() -> list[Row]:
    """8 experts of 2 linears, 256 wide, batch 4"""
    return compare(lambda: mixture(4))


@case("supers-experts-16", extra=True)
def sixteen_rows_of_experts() -> list[Row]:
    """8 experts of 2 linears, 256 wide, batch 16"""
    return compare(lambda: mixture(16))


@case("supers-decode-1", extra=True)
def decode_one() -> list[Row]:
    """one step of a Llama of 12 layers, 768 wide, context 512, batch 1"""
    return [*compare(lambda: decode(1), "ms", names=COMPILERS), decode_bound(1)]


@case("supers-decode-8", extra=True)
def decode_eight() -> list[Row]:
    """one step of a Llama of 12 layers, 768 wide, context 512, batch 8"""
    return [*compare(lambda: decode(8), "ms", names=COMPILERS), decode_bound(8)]


@case("supers-decode-layers", extra=True)
def decode_layers() -> list[Row]:
    """the same with batch 1 and one super kernel for each layer"""
    return compare(lambda: decode(1, a_scope_a_layer=True), "ms", names=COMPILERS)


@case("supers-seed", extra=True)
def seed() -> list[Row]:
    """int8 product 864 x 7168 x 4096, then dequantise, SwiGLU, quantise"""
    return compare(quantised, "ms", names=COMPILERS)
