"""Products and convolutions of tensors that stand for bytes multiply the bytes. Their
results are exact but for the last roundings, which float products of dequantised
tensors are not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import hypothesis
import pytest
import torch
from checking import exported_for
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - registers operators
from torch.nn import functional as F

import anabranch

q = torch.ops.quantized_decomposed
TARGETS = ["avx2", "avxvnni", "avx512", "avx512vnni", "amx"]
I8 = (-128, 127, torch.int8)
U8 = (0, 255, torch.uint8)
UNIT = {torch.float32: 2**-24, torch.bfloat16: 2**-8, torch.float16: 2**-11}


@dataclasses.dataclass(frozen=True)
class Case:
    """One product. `x` has the first shape and `w` the second, whose first dimension
    has a scale for each index."""

    kind: str  # linear, mm, addmm, bmm, conv
    x: tuple[int, ...]
    w: tuple[int, ...]
    unsigned: bool = True
    x_zero: str = "number"  # none, number, tensor, rows
    w_zero: str = "zeros"  # none, zeros, mixed
    bias: bool = True
    dtype: torch.dtype = torch.float32
    how: tuple[tuple[str, int], ...] = ()  # stride, padding, dilation, groups

    @property
    def points(self) -> int:
        return len(self.x) - 2

    @property
    def x_number(self) -> int:
        """The zero point of all elements of x."""
        known = {"none": 0, "tensor": 93, "number": 93 if self.unsigned else -17}
        return known[self.x_zero]


def of_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A scale and a zero point for each row."""
    shape = x.shape[:-1] + (1,)
    scale = torch.linspace(0.01, 0.03, shape.numel()).reshape(shape)
    return scale, torch.arange(shape.numel()).reshape(shape) % 120


class Product(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        channels = case.w[0]
        # Integers whose sum is far from zero make products cancel.
        weight = torch.randint(-128, 128, case.w, dtype=torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scales", torch.rand(channels) / 50 + 0.001)
        mixed = torch.randint(-20, 20, (channels,))
        self.register_buffer(
            "zeros", mixed if case.w_zero == "mixed" else torch.zeros_like(mixed)
        )
        self.register_buffer("x_scale", torch.tensor([0.037], dtype=torch.double))
        self.register_buffer("x_zero", torch.tensor([93]))
        bias = torch.randn(channels).to(case.dtype) if case.bias else None
        self.register_buffer("bias", bias)

    def left(self, x: torch.Tensor) -> torch.Tensor:
        case, span = self.case, U8 if self.case.unsigned else I8
        more = {"out_dtype": case.dtype}
        if case.x_zero == "tensor":
            found = self.x_scale, self.x_zero
            return q.dequantize_per_tensor.tensor(x, *found, *span, **more)
        if case.x_zero == "rows":
            scale, zero = of_rows(x)
            return ((x.to(torch.float32) - zero) * scale).to(case.dtype)
        return q.dequantize_per_tensor(x, 0.037, case.x_number, *span, **more)

    def right(self) -> torch.Tensor:
        zeros = None if self.case.w_zero == "none" else self.zeros
        more = {"out_dtype": self.case.dtype}
        return q.dequantize_per_channel(self.weight, self.scales, zeros, 0, *I8, **more)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        case, left, right = self.case, self.left(x), self.right()
        return product(case, left, right, self.bias)


def product(case: Case, left, right, bias) -> torch.Tensor:
    if case.kind == "linear":
        return F.linear(left, right, bias)
    if case.kind == "conv":
        convolve = (F.conv1d, F.conv2d, F.conv3d)[case.points - 1]
        return convolve(left, right, bias, **dict(case.how))
    if case.kind == "bmm":
        return torch.bmm(left, left.transpose(1, 2))
    return left @ right.t() + (0 if bias is None else bias)


def exact(module: Product, x: torch.Tensor, absolute: bool = False) -> torch.Tensor:
    """The result without bias in float64, or that of absolute values."""
    case = module.case
    scale, zero = of_rows(x) if case.x_zero == "rows" else (0.037, case.x_number)
    left = (x.double() - zero) * scale
    shape = (-1,) + (1,) * (len(case.w) - 1)
    zeros = 0 if case.w_zero == "none" else module.zeros.reshape(shape)
    right = (module.weight.double() - zeros) * module.scales.double().reshape(shape)
    if absolute:
        left, right = left.abs(), right.abs()
    return product(case, left, right, None)


def multiplies_integers(case: Case, freeze: bool) -> bool:
    """Whether the compiler knows enough to do so. Elsewhere products stay floats."""
    if case.kind != "conv":
        return True
    how = dict(case.how)
    groups = how.get("groups", 1)
    is_depthwise = groups > 1 and case.w[1] == 1 and case.w[0] == groups
    knows_padding = freeze or case.x_zero != "tensor" or not how.get("padding")
    knows_zeros = case.w_zero == "none" or (freeze and case.w_zero == "zeros")
    return knows_padding and (knows_zeros or groups == 1 or is_depthwise)


def check(
    module: Product, x: torch.Tensor, found: torch.Tensor, of_integers: bool = True
) -> None:
    """Results of integers have the error of a few roundings, however much products
    cancel."""
    expected = exact(module, x)
    sizes = expected.abs() if of_integers else exact(module, x, absolute=True)
    if module.bias is not None and module.case.kind != "bmm":
        bias = module.bias.double()
        if module.case.kind == "conv":
            bias = bias.reshape((-1,) + (1,) * module.case.points)
        expected, sizes = expected + bias, sizes + bias.abs()
    unit = UNIT[module.case.dtype]
    allowed = unit * (expected.abs() + 2**-14)
    allowed += (6 * 2**-24 if of_integers else 4 * unit) * sizes
    wrong = (found.double() - expected).abs() > allowed
    assert found.dtype == module.case.dtype
    assert not wrong.any(), (module.case, wrong.nonzero()[:4])


def sample(case: Case) -> torch.Tensor:
    low, high, dtype = U8 if case.unsigned else I8
    return torch.randint(low, high + 1, case.x, dtype=dtype)


CASES = [
    Case("linear", (5, 96), (40, 96)),
    Case("linear", (2, 7, 70), (33, 70), unsigned=False, w_zero="none"),
    Case("linear", (130, 64), (48, 64), x_zero="tensor", w_zero="mixed"),
    Case("linear", (9, 64), (64, 64), x_zero="rows", dtype=torch.bfloat16),
    Case("mm", (6, 36), (20, 36), bias=False),
    Case("addmm", (6, 36), (20, 36), x_zero="none"),
    Case("bmm", (3, 10, 40), (1, 1), w_zero="none", bias=False),
    Case("conv", (2, 3, 9, 9), (16, 3, 3, 3), how=(("padding", 1),)),
    Case("conv", (1, 24, 7, 8), (24, 24, 3, 3), how=(("padding", 2), ("stride", 2))),
    Case("conv", (2, 32, 6, 6), (40, 32, 1, 1), unsigned=False),
    Case("conv", (1, 16, 9, 9), (24, 8, 3, 3), how=(("groups", 2), ("padding", 1))),
    Case("conv", (1, 8, 11), (16, 8, 5), how=(("padding", 2), ("dilation", 2))),
    Case("conv", (1, 8, 5, 6, 7), (16, 8, 3, 3, 3), how=(("padding", 1),)),
    Case("conv", (1, 16, 8, 8), (16, 16, 3, 3), w_zero="mixed", how=(("padding", 1),)),
    Case("conv", (2, 16, 8, 8), (32, 16, 3, 3), dtype=torch.float16),
    Case("conv", (2, 24, 9, 9), (24, 1, 3, 3), how=(("groups", 24), ("padding", 1))),
    Case(
        "conv",
        (1, 40, 11, 8),
        (40, 1, 5, 5),
        w_zero="mixed",
        how=(("groups", 40), ("padding", 2), ("stride", 2)),
    ),
    Case(
        "conv",
        (1, 16, 30),
        (16, 1, 7),
        unsigned=False,
        how=(("groups", 16), ("dilation", 2), ("padding", 3)),
    ),
    Case("conv", (1, 19, 4, 6, 7), (19, 1, 3, 2, 3), how=(("groups", 19),)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("options", [{"freeze": True}, {}, {"watch": False}], ids=str)
def test_products(case: Case, options) -> None:
    module, x = Product(case).eval(), sample(case)
    with torch.no_grad():
        compiled = anabranch.compile(module, fullgraph=True, **options)
        of_integers = multiplies_integers(case, "freeze" in options)
        check(module, x, compiled(x), of_integers)
        # Zero points that change count from the next call on.
        module.zeros.fill_(3)
        groups = dict(case.how).get("groups")
        check(module, x, compiled(x), of_integers and groups != 2)
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", [0, 2, 3, 7, 8, 9, 13, 15, 16, 17, 18])
def test_targets(target: str, number: int, shared_folder: Path) -> None:
    module, x = Product(CASES[number]).eval(), sample(CASES[number])
    path = shared_folder / f"package{number}"
    with torch.no_grad():
        check(module, x, exported_for(target, module, (x,), path, TARGETS)(x))


sizes = st.integers(1, 70)


@st.composite
def products(draw) -> Case:
    common = {
        "unsigned": draw(st.booleans()),
        "w_zero": draw(st.sampled_from(["none", "zeros", "mixed"])),
        "bias": draw(st.booleans()),
        "dtype": draw(st.sampled_from(list(UNIT))),
    }
    if draw(st.booleans()):
        depth = draw(st.integers(2, 300))
        x = (*draw(st.lists(st.integers(1, 9), min_size=1, max_size=2)), depth)
        zero = draw(st.sampled_from(["none", "number", "tensor", "rows"]))
        return Case("linear", x, (draw(sizes), depth), x_zero=zero, **common)
    points, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 0]))
    channels, filters = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    if groups == 0:  # depthwise
        groups, channels, filters = draw(st.integers(2, 40)), 1, 1
    window = draw(st.lists(st.integers(1, 3), min_size=points, max_size=points))
    if points < 3:
        window[0] = draw(st.integers(1, 5))
    how = {
        "groups": groups,
        "stride": draw(st.integers(1, 2)),
        "padding": draw(st.integers(0, 2)),
        "dilation": draw(st.integers(1, 2)),
    }
    image = draw(st.lists(st.integers(9, 13), min_size=points, max_size=points))
    zero = draw(st.sampled_from(["none", "number", "tensor"]))
    return Case(
        "conv",
        (draw(st.integers(1, 2)), channels * groups, *image),
        (filters * groups, channels, *window),
        x_zero=zero,
        how=tuple(how.items()),
        **common,
    )


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@hypothesis.given(case=products(), freeze=st.booleans(), seed=st.integers(0, 99))
def test_any_product(case: Case, freeze: bool, seed: int) -> None:
    torch.manual_seed(seed)
    module, x = Product(case).eval(), sample(case)
    torch._dynamo.reset()
    with torch.no_grad():
        found = anabranch.compile(module, fullgraph=True, freeze=freeze)(x)
    check(module, x, found, multiplies_integers(case, freeze))


class Residual(nn.Module):
    """Quantised convolutions as PT2E writes them, whose bytes have several readers."""

    def __init__(self, readers: str) -> None:
        super().__init__()
        self.readers = readers
        shapes = [(16, 16, 3, 3), (16, 16, 1, 1)]
        self.products = nn.ModuleList(
            Product(Case("conv", (1,), shape, w_zero="none")) for shape in shapes
        )

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        return q.quantize_per_tensor(x, 0.037, 93, *U8)

    def floats(self, x: torch.Tensor) -> torch.Tensor:
        return q.dequantize_per_tensor(x, 0.037, 93, *U8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = self.products
        start = self.floats(self.rounded(x))
        inner = F.conv2d(start, first.right() / 100, first.bias, padding=1)
        bytes_ = self.rounded(inner.relu() + start)
        floats = self.floats(bytes_)
        outer = F.conv2d(floats, second.right() / 100, second.bias)
        results = [outer + floats]
        if "mean" in self.readers:
            results.append(floats.mean((2, 3)))
        if "result" in self.readers:
            results += [floats, bytes_]
        if "pool" in self.readers:
            results.append(F.max_pool2d(floats, 3, 1, 1) * 2)
        if "cat" in self.readers:
            results.append(torch.cat([floats, outer], 1))
        if "call" in self.readers:
            results.append(torch.special.i1(floats))
        return tuple(results)


@pytest.mark.parametrize(
    "readers", ["none", "mean", "result", "pool", "cat", "call", "mean result pool cat"]
)
@pytest.mark.parametrize("freeze", [False, True])
def test_bytes_with_several_readers(readers: str, freeze: bool) -> None:
    module, x = Residual(readers).eval(), torch.randn(2, 16, 9, 9)
    with torch.no_grad():
        expected = module(x)
        found = anabranch.compile(module, freeze=freeze)(x)
    for got, want in zip(found, expected, strict=True):
        # Sums that round to another byte are rare, and the bytes neighbours.
        distance = (got.double() - want.double()).abs()
        assert got.dtype == want.dtype
        assert (distance > 1e-4 * (want.double().abs() + 1)).double().mean() < 0.01
        assert distance.max() < 1.01


class Kept(nn.Module):
    """Bytes that PT2E converts to floats for an operator that moves them, and back."""

    def __init__(self, span: tuple, zero: int, move: str, scale: float = 0.037) -> None:
        super().__init__()
        self.span, self.zero, self.move, self.scale = span, zero, move, scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        floats = q.dequantize_per_tensor(x, 0.037, self.zero, *self.span)
        moved = {
            "pool": lambda: F.max_pool2d(floats, 3, 2, 1),
            "ceil": lambda: F.max_pool2d(floats, 2, 2, ceil_mode=True, dilation=2),
            "pool3d": lambda: F.max_pool3d(floats.unsqueeze(1), (2, 3, 3), 2),
            "view": lambda: floats.transpose(1, 3).flatten(2),
            "none": lambda: floats,
        }[self.move]()
        return q.quantize_per_tensor(moved, self.scale, self.zero, *self.span)


@pytest.mark.parametrize("move", ["pool", "ceil", "pool3d", "view", "none"])
@pytest.mark.parametrize(("span", "zero"), [(U8, 0), (U8, 131), (I8, -7)])
def test_bytes_that_are_only_moved(move: str, span: tuple, zero: int) -> None:
    module = Kept(span, zero, move)
    x = torch.randint(span[0], span[1] + 1, (2, 6, 9, 11), dtype=span[2])
    compiled = anabranch.compile(module, fullgraph=True)
    assert torch.equal(compiled(x), module(x))
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("scale", [0.0371, 0.05, 0.02])
def test_bytes_of_another_scale(scale: float) -> None:
    module = Kept(U8, 93, "pool", scale)
    x = torch.arange(256, dtype=torch.uint8).repeat(1, 1, 4, 1)
    torch._dynamo.reset()
    found = anabranch.compile(module, fullgraph=True)(x)
    assert torch.equal(found, module(x))


class Rounded(nn.Module):
    """A float that an activation bounds becomes a byte."""

    def __init__(self, activation: str, scale: float, zero: int, span: tuple) -> None:
        super().__init__()
        self.activation, self.scale, self.zero = activation, scale, zero
        self.span = span

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        active = {
            "none": lambda x: x * 1.5,
            "relu": torch.relu,
            "relu6": F.relu6,
            "clamp": lambda x: x.clamp(-1.5, 0.75),
            "crossing": lambda x: x.clamp(2.0, -3.0),
            "least": lambda x: x.clamp(min=-0.3),
        }[self.activation.removesuffix(" twice")](x)
        rounded = q.quantize_per_tensor(active, self.scale, self.zero, *self.span)
        return (rounded, active) if "twice" in self.activation else (rounded,)


@settings(max_examples=60, deadline=None)
@hypothesis.given(
    activation=st.sampled_from(
        ["none", "relu", "relu6", "clamp", "crossing", "least", "relu6 twice"]
    ),
    scale=st.sampled_from([2.0**-7, 2.0**-5, 0.25, 0.5, 1.0]),
    zero=st.integers(-128, 255),
    signed=st.booleans(),
)
def test_any_rounding(activation: str, scale: float, zero: int, signed: bool) -> None:
    span = I8 if signed else U8
    module = Rounded(activation, scale, min(max(zero, span[0]), span[1]), span)
    torch._dynamo.reset()
    # Halves of a step, ends of the range and what is beyond them.
    x = torch.cat([torch.arange(-300, 300) * scale / 2, torch.randn(41) * 1e9])
    for found, expected in zip(
        anabranch.compile(module, fullgraph=True)(x), module(x), strict=True
    ):
        assert torch.equal(found, expected)


def test_bytes_through_bfloat16() -> None:
    """Numbers of bfloat16 lose digits of bytes, which must be lost here too."""

    def model(x: torch.Tensor) -> torch.Tensor:
        floats = (x.to(torch.bfloat16) - 3) * 0.037
        return ((floats * (1 / 0.037)).round() + 3).clamp(0, 255).to(torch.uint8)

    x = torch.arange(256, dtype=torch.uint8)
    expected = model(x)
    assert not torch.equal(expected, x)
    assert torch.equal(anabranch.compile(model, fullgraph=True)(x), expected)
