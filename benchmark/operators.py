"""Single operators and small fusions, in the shapes that models give them.

Each entry is (name, function, argument makers). A maker is called with a
generator, so that every contender sees the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
I32, I64, BOOL = torch.int32, torch.int64, torch.bool
Maker = Callable[[torch.Generator], Any]


@dataclass(frozen=True)
class Operator:
    name: str
    function: Callable[..., Any]
    makers: tuple[Maker, ...]
    fused: bool  # several operators, which a compiler should run faster


OPERATORS: list[Operator] = []


def op(name: str, function: Callable[..., Any], *makers: Maker) -> None:
    OPERATORS.append(Operator(name, function, makers, False))


def fusion(name: str, function: Callable[..., Any], *makers: Maker) -> None:
    OPERATORS.append(Operator(name, function, makers, True))


def rand(*shape: int, dtype: torch.dtype = F32) -> Maker:
    return lambda g: torch.randn(shape, generator=g).to(dtype)


def positive(*shape: int) -> Maker:
    return lambda g: torch.rand(shape, generator=g) + 0.1


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = I64) -> Maker:
    return lambda g: torch.randint(low, high, shape, generator=g).to(dtype)


def bools(*shape: int) -> Maker:
    return lambda g: torch.rand(shape, generator=g) > 0.5


def unique(count: int, high: int) -> Maker:
    return lambda g: torch.randperm(high, generator=g)[:count]


def pointwise() -> None:
    chain = lambda x, y: ((x * y + x).sigmoid() - y).relu() * 2
    for label, dtype in (("f32", F32), ("bf16", BF16), ("f16", F16)):
        data = rand(1024, 1024, dtype=dtype)
        op(f"add {label}", torch.add, data, data)
        op(f"gelu {label}", F.gelu, data)
        op(f"silu {label}", F.silu, data)
        op(f"exp {label}", torch.exp, data)
        fusion(f"chain of six {label}", chain, data, data)
    for name in ("erf", "sin", "tanh", "sigmoid", "rsqrt", "log", "expm1"):
        op(f"{name} f32", getattr(torch, name), positive(1024, 1024))
    for label, dtype in (("f32", F32), ("bf16", BF16), ("f16", F16)):
        large = rand(4096, 1024, dtype=dtype)
        op(f"add large {label}", torch.add, large, large)
        op(f"exp large {label}", torch.exp, large)
        op(f"gelu large {label}", F.gelu, large)
        op(f"tanh large {label}", torch.tanh, large)
    op("gelu tanh f32", lambda x: F.gelu(x, approximate="tanh"), rand(1024, 1024))
    op("pow 2.5 f32", lambda x: x**2.5, positive(1024, 1024))
    op("pow tensor f32", torch.pow, positive(1024, 1024), rand(1024, 1024))
    op("atan2 f32", torch.atan2, rand(512, 1024), rand(512, 1024))
    op("div f32", torch.div, rand(1024, 1024), positive(1024, 1024))
    wide = ints(-99, 99, 1024, 1024)
    fusion("chain i64", lambda x, y: (x * y + x) // 7 - y, wide, wide)
    op("add i64", torch.add, wide, wide)
    op("floor divide i32", lambda x: x // 7, ints(-99, 99, 1024, 1024, dtype=I32))
    op("remainder i64", lambda x: x % 10, wide)
    logic = lambda x, y: (x & ~y) | (y ^ x)
    fusion("chain bool", logic, bools(2048, 1024), bools(2048, 1024))
    compare = lambda x, y: (x > 0) & (y < 0.5)
    fusion("compare f32", compare, rand(1024, 1024), rand(1024, 1024))
    op("where", torch.where, bools(1024, 1024), rand(1024, 1024), rand(1024, 1024))
    masked = lambda x, m: x.masked_fill(m, float("-inf"))
    op("masked_fill", masked, rand(1024, 1024), bools(1024, 1024))
    op("add row", torch.add, rand(1024, 1024), rand(1024))
    op("add column", torch.add, rand(1024, 1024), rand(1024, 1))
    op("clamp bf16", lambda x: x.clamp(-1, 1), rand(1024, 1024, dtype=BF16))


def conversions() -> None:
    pairs = ((F32, BF16), (BF16, F32), (F32, F16), (F16, F32), (F32, I32), (I64, F32))
    for source, target in (*pairs, (BOOL, F32), (F32, BOOL)):
        name = f"{str(source)[6:]} to {str(target)[6:]}"
        op(name, lambda x, t=target: x.to(t), rand(1024, 1024, dtype=source))


def reductions() -> None:
    for label, dim in (("inner", 1), ("outer", 0), ("all", None)):
        for name in ("sum", "amax", "mean"):
            over = {} if dim is None else {"dim": dim}
            function = lambda x, n=name, o=over: getattr(torch, n)(x, **o)
            op(f"{name} {label} f32", function, rand(2048, 1024))
    middle = rand(32, 128, 256)
    op("sum middle f32", lambda x: x.sum(1), middle)
    op("sum outer two f32", lambda x: x.sum((0, 2)), middle)
    op("sum all bf16", lambda x: x.sum(), rand(2048, 1024, dtype=BF16))
    op("sum inner bf16", lambda x: x.sum(1), rand(2048, 1024, dtype=BF16))
    op("sum outer bf16", lambda x: x.sum(0), rand(2048, 1024, dtype=BF16))
    op("sum all i64", lambda x: x.sum(), ints(0, 9, 1024, 1024))
    op("sum all i32", lambda x: x.sum(), ints(0, 9, 1024, 1024, dtype=I32))
    op("any", lambda x: x.any(1), bools(2048, 1024))
    op("count true", lambda x: x.sum(), bools(2048, 1024))
    op("prod inner f32", lambda x: x.prod(1), positive(2048, 1024))
    op("argmax inner f32", lambda x: x.argmax(1), rand(2048, 1024))
    op("argmax outer f32", lambda x: x.argmax(0), rand(2048, 1024))
    op("argmax all f32", lambda x: x.argmax(), rand(2048, 1024))
    op("argmin long rows", lambda x: x.argmin(-1), rand(8, 50257))
    op("max with index", lambda x: x.max(1), rand(2048, 1024))
    op("cumsum inner f32", lambda x: x.cumsum(1), rand(1024, 1024))
    op("cumsum outer f32", lambda x: x.cumsum(0), rand(1024, 1024))
    for label, dtype in (("bf16", BF16), ("f16", F16)):
        op(
            f"cumsum inner {label}",
            lambda x: x.cumsum(1),
            rand(1024, 1024, dtype=dtype),
        )
    op("cumsum i64 mask", lambda x: x.cumsum(1), ints(0, 2, 1024, 512))
    op("var inner f32", lambda x: x.var(1), rand(2048, 1024))
    op("std all f32", lambda x: x.std(), rand(2048, 1024))
    op("norm inner f32", lambda x: x.norm(dim=1), rand(2048, 1024))
    op("norm all f32", lambda x: x.norm(), rand(2048, 1024))
    op("logsumexp f32", lambda x: x.logsumexp(1), rand(2048, 1024))
    fusion("square error", F.mse_loss, rand(1024, 1024), rand(1024, 1024))
    fusion("normalize", lambda x: F.normalize(x, dim=-1), rand(2048, 768))
    cosine = lambda x, y: F.cosine_similarity(x, y, dim=-1)
    fusion("cosine", cosine, rand(2048, 768), rand(2048, 768))
    fusion("cross entropy", F.cross_entropy, rand(512, 4096), ints(0, 4096, 512))


def norms() -> None:
    for label, dtype in (("f32", F32), ("bf16", BF16)):
        rows = rand(2048, 1024, dtype=dtype)
        op(f"softmax inner {label}", lambda x: x.softmax(-1), rows)
        op(f"softmax outer {label}", lambda x: x.softmax(0), rows)
        op(f"log_softmax {label}", lambda x: x.log_softmax(-1), rows)
        weight = rand(1024, dtype=dtype)
        layer = lambda x, w, b: F.layer_norm(x, (1024,), w, b)
        op(f"layer_norm {label}", layer, rows, weight, weight)
        rms = lambda x, w: F.rms_norm(x, (1024,), w)
        op(f"rms_norm {label}", rms, rows, weight)
        large = rand(4096, 1024, dtype=dtype)
        op(f"softmax inner large {label}", lambda x: x.softmax(-1), large)
        op(f"softmax outer large {label}", lambda x: x.softmax(0), large)
        wide = lambda x, w, b: F.gelu(F.layer_norm(x, (1024,), w, b))
        fusion(f"layer_norm gelu large {label}", wide, large, weight, weight)
    op("softmax middle f32", lambda x: x.softmax(1), rand(16, 128, 512))
    op("softmax long rows", lambda x: x.softmax(-1), rand(16, 50257))
    group = lambda x, w, b: F.group_norm(x, 8, w, b)
    op("group_norm", group, rand(4, 64, 56, 56), rand(64), rand(64))
    batch = lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b)
    op(
        "batch_norm",
        batch,
        rand(4, 64, 56, 56),
        rand(64),
        positive(64),
        *[rand(64)] * 2,
    )
    op("instance_norm", F.instance_norm, rand(4, 64, 56, 56))
    residual = lambda x, y, w, b: F.layer_norm(x + y, (1024,), w, b)
    rows = rand(2048, 1024)
    fusion("add layer_norm", residual, rows, rows, rand(1024), rand(1024))
    swiglu = lambda x, y: F.silu(x) * y
    fusion("silu times", swiglu, rows, rows)
    masked = lambda x, m: (x * 0.125 + m).softmax(-1)
    fusion("scale mask softmax", masked, rand(8, 12, 128, 128), rand(8, 1, 1, 128))


def movement() -> None:
    half = rand(512, 1024)
    op("cat inner", lambda x, y: torch.cat((x, y), 1), half, half)
    op("cat outer", lambda x, y: torch.cat((x, y), 0), half, half)
    brief = rand(512, 1024, dtype=BF16)
    op("cat inner bf16", lambda x, y: torch.cat((x, y), 1), brief, brief)
    op("cat outer bf16", lambda x, y: torch.cat((x, y), 0), brief, brief)
    op("stack last", lambda x, y: torch.stack((x, y), -1), half, half)
    fusion("split add", lambda x: sum(x.split(256, 1)), rand(1024, 1024))
    op("pad", lambda x: F.pad(x, (1, 1, 1, 1)), rand(4, 64, 56, 56))
    op("pad reflect", lambda x: F.pad(x, [3] * 4, "reflect"), rand(4, 16, 64, 64))
    op("flip inner", lambda x: x.flip(1), rand(1024, 1024))
    op("flip outer", lambda x: x.flip(0), rand(1024, 1024))
    op("roll", lambda x: x.roll((3, 5), (0, 1)), rand(1024, 1024))
    op("repeat", lambda x: x.repeat(4, 4), rand(256, 256))
    op("repeat_interleave", lambda x: x.repeat_interleave(4, 1), rand(256, 1024))
    for label, dtype in (("f32", F32), ("bf16", BF16)):
        transpose = lambda x: x.t().contiguous()
        op(f"transpose {label}", transpose, rand(1024, 1024, dtype=dtype))
        heads = lambda x: x.transpose(1, 2).contiguous()
        op(f"split heads {label}", heads, rand(8, 128, 12, 64, dtype=dtype))
    op("transpose i64", lambda x: x.t().contiguous(), ints(0, 9, 1024, 1024))
    op("transpose bool", lambda x: x.t().contiguous(), bools(1024, 1024))
    op("transpose odd", lambda x: x.t().contiguous(), rand(1001, 1003))
    last = lambda x: x.permute(0, 2, 3, 1).contiguous()
    op("channels last", last, rand(4, 64, 56, 56))
    first = lambda x: x.permute(0, 3, 1, 2).contiguous()
    op("channels first", first, rand(4, 56, 56, 64))
    reverse = lambda x: x.permute(2, 1, 0).contiguous()
    op("reverse dims", reverse, rand(64, 96, 128))
    fusion("add transposed", lambda x, y: x + y.t(), rand(1024, 1024), rand(1024, 1024))
    op("strided slice", lambda x: x[:, ::2] * 1, rand(1024, 1024))
    op("tril", torch.tril, rand(1024, 1024))
    op("unfold", lambda x: F.unfold(x, 3, padding=1), rand(2, 16, 56, 56))
    op("pixel shuffle", lambda x: F.pixel_shuffle(x, 2), rand(2, 64, 64, 64))


def indexing() -> None:
    op("embedding", F.embedding, ints(0, 30000, 8, 128), rand(30000, 384))
    rows = ints(0, 4096, 2048)
    op("index_select", lambda x, i: x.index_select(0, i), rand(4096, 512), rows)
    columns = lambda x, i: x.index_select(1, i)
    op("index_select inner", columns, rand(1024, 1024), ints(0, 1024, 512))
    op("index rows", lambda x, i: x[i], rand(4096, 512), rows)
    pairs = lambda x, i, j: x[i, j]
    op("index pairs", pairs, rand(1024, 1024), *[ints(0, 1024, 65536)] * 2)
    inner = ints(0, 1024, 1024, 512)
    op("gather inner", lambda x, i: x.gather(1, i), rand(1024, 1024), inner)
    op("gather outer", lambda x, i: x.gather(0, i), rand(1024, 512), inner)
    scatter = lambda x, i, s: x.scatter(1, i, s)
    op("scatter inner", scatter, rand(1024, 1024), inner, rand(1024, 512))
    total = lambda x, i, s: x.scatter_add(0, i, s)
    op("scatter_add outer", total, rand(1024, 512), inner, rand(1024, 512))
    put = lambda x, i, v: x.index_put((i,), v)
    op("index_put rows", put, rand(4096, 512), unique(1024, 4096), rand(1024, 512))
    add = lambda x, i, v: x.index_add(0, i, v)
    op("index_add rows", add, rand(1024, 512), ints(0, 1024, 2048), rand(2048, 512))
    halves = rand(2048, 512, dtype=BF16)
    ids = ints(0, 1024, 2048)
    op("index_add rows bf16", add, rand(1024, 512, dtype=BF16), ids, halves)
    op("one_hot", lambda i: F.one_hot(i, 512), ints(0, 512, 1024))


def windows() -> None:
    images = rand(4, 64, 56, 56)
    op("max_pool 3x3/2", lambda x: F.max_pool2d(x, 3, 2, 1), images)
    op("avg_pool 2x2", lambda x: F.avg_pool2d(x, 2), images)
    op("avg_pool 3x3 pad", lambda x: F.avg_pool2d(x, 3, 1, 1), images)
    op("global pool", lambda x: F.adaptive_avg_pool2d(x, 1), images)
    nearest = lambda x: F.interpolate(x, scale_factor=2)
    op("upsample nearest", nearest, rand(2, 32, 56, 56))
    linear = lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")
    op("upsample bilinear", linear, rand(2, 32, 56, 56))
    conv = F.conv2d
    square = rand(64, 64, 3, 3)
    op(
        "conv 3x3",
        lambda x, w, b: conv(x, w, b, 1, 1),
        rand(1, 64, 56, 56),
        square,
        rand(64),
    )
    op("conv 3x3 batch", lambda x, w: conv(x, w, None, 1, 1), images, square)
    strided = lambda x, w: conv(x, w, None, 2, 1)
    op("conv 3x3 strided", strided, rand(1, 64, 56, 56), rand(128, 64, 3, 3))
    op("conv 1x1", conv, rand(1, 256, 28, 28), rand(512, 256, 1, 1))
    stem = lambda x, w: conv(x, w, None, 2, 3)
    op("conv 7x7 stem", stem, rand(1, 3, 224, 224), rand(64, 3, 7, 7))
    op(
        "conv patch",
        lambda x, w: conv(x, w, None, 16),
        rand(1, 3, 224, 224),
        rand(384, 3, 16, 16),
    )
    depth = lambda x, w: conv(x, w, None, 1, 1, 1, 144)
    op("conv depthwise", depth, rand(1, 144, 56, 56), rand(144, 1, 3, 3))
    groups = lambda x, w: conv(x, w, None, 1, 1, 1, 4)
    op("conv grouped", groups, rand(1, 128, 28, 28), rand(128, 32, 3, 3))
    dilated = lambda x, w: conv(x, w, None, 1, 2, 2)
    op("conv dilated", dilated, rand(1, 64, 28, 28), square)
    up = lambda x, w: F.conv_transpose2d(x, w, None, 2)
    op("conv transposed", up, rand(1, 64, 28, 28), rand(64, 32, 2, 2))
    up3 = lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1)
    op("conv transposed 3x3", up3, rand(1, 64, 28, 28), rand(64, 32, 3, 3))
    line = lambda x, w: F.conv1d(x, w, None, 1, 1)
    op("conv1d", line, rand(1, 256, 512), rand(256, 256, 3))
    half = rand(64, 64, 3, 3, dtype=BF16)
    op(
        "conv 3x3 bf16",
        lambda x, w: conv(x, w, None, 1, 1),
        rand(1, 64, 56, 56, dtype=BF16),
        half,
    )
    unit = lambda x, w, b: F.relu(conv(x, w, b, 1, 1))
    fusion("conv relu", unit, rand(1, 64, 56, 56), square, rand(64))


def products() -> None:
    mm = torch.matmul
    for label, dtype in (("f32", F32), ("bf16", BF16)):
        op(f"mm 512 {label}", mm, *[rand(512, 512, dtype=dtype)] * 2)
        op(
            f"linear 128 {label}",
            F.linear,
            rand(128, 768, dtype=dtype),
            rand(3072, 768, dtype=dtype),
        )
        op(
            f"linear 1 {label}",
            F.linear,
            rand(1, 1024, dtype=dtype),
            rand(4096, 1024, dtype=dtype),
        )
        op(
            f"bmm {label}",
            torch.bmm,
            rand(96, 128, 64, dtype=dtype),
            rand(96, 64, 128, dtype=dtype),
        )
    op("mm f16", mm, *[rand(512, 512, dtype=F16)] * 2)
    op("mm f64", mm, *[lambda g: torch.randn(256, 256, generator=g).double()] * 2)
    op("mm odd", mm, rand(127, 333), rand(333, 251))
    op("mm left transposed", lambda x, y: x.t() @ y, rand(384, 256), rand(384, 512))
    op("mm right transposed", lambda x, y: x @ y.t(), rand(256, 384), rand(512, 384))
    op("mm tall", mm, rand(65536, 16), rand(16, 16))
    op("mm long inner", mm, rand(16, 65536), rand(65536, 16))
    op("mv", mm, rand(2048, 1024), rand(1024))
    op("vm", mm, rand(1024), rand(1024, 2048))
    op("dot", torch.dot, rand(1 << 20), rand(1 << 20))
    op("outer", torch.outer, rand(1024), rand(1024))
    op("bmm small", torch.bmm, rand(2048, 8, 8), rand(2048, 8, 8))
    op("batched broadcast", mm, rand(16, 128, 128), rand(128, 256))
    op("mm i32", mm, *[ints(-9, 9, 256, 256, dtype=I32)] * 2)
    op("mm i64", mm, *[ints(-9, 9, 256, 256)] * 2)
    int8 = (
        ints(-99, 99, 256, 512, dtype=torch.int8),
        ints(-99, 99, 512, 256, dtype=torch.int8),
    )
    op("_int_mm", torch._int_mm, *int8)
    fused = lambda x, w, b: F.gelu(F.linear(x, w, b))
    fusion("linear gelu", fused, rand(128, 768), rand(3072, 768), rand(3072))

    def chain(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            x = torch.tanh(x @ weight)
        return x

    fusion("chain of 20 8x8 mm", chain, rand(8, 8), *[rand(8, 8)] * 20)
    fusion(
        "einsum attention",
        lambda q, k: torch.einsum("bihd,bjhd->bhij", q, k),
        *[rand(4, 128, 12, 64)] * 2,
    )


def attention() -> None:
    sdpa = F.scaled_dot_product_attention
    for label, dtype in (("f32", F32), ("bf16", BF16)):
        qkv = [rand(1, 12, 128, 64, dtype=dtype)] * 3
        op(f"attention {label}", sdpa, *qkv)
        causal = lambda q, k, v: sdpa(q, k, v, is_causal=True)
        op(
            f"attention causal {label}",
            causal,
            *[rand(1, 12, 256, 64, dtype=dtype)] * 3,
        )
        cache = [rand(1, 12, 1024, 64, dtype=dtype)] * 2
        op(f"attention decode {label}", sdpa, rand(1, 12, 1, 64, dtype=dtype), *cache)
    masked = lambda q, k, v, m: sdpa(q, k, v, m)
    op("attention mask", masked, *[rand(4, 12, 128, 64)] * 3, rand(4, 1, 1, 128))
    op(
        "attention bool mask",
        masked,
        *[rand(4, 12, 128, 64)] * 3,
        bools(1, 1, 128, 128),
    )
    grouped = lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True)
    op("attention grouped", grouped, rand(1, 16, 128, 64), *[rand(1, 4, 128, 64)] * 2)
    op("attention long", sdpa, *[rand(1, 4, 1024, 64)] * 3)
    once = lambda q, k, v: sdpa(q, k, v, enable_gqa=True)
    op(
        "attention grouped decode",
        once,
        rand(1, 16, 1, 64),
        *[rand(1, 4, 2048, 64)] * 2,
    )


for family in (
    pointwise,
    conversions,
    reductions,
    norms,
    movement,
    indexing,
    windows,
    products,
    attention,
):
    family()
