"""Weights in the layouts of GPTQ, AWQ, NF4 and MX stay in their few bits, and results are
as near to float64 as eager's."""

from __future__ import annotations

import re

import pytest
import torch
from quantized_weights import reads_few_bits, relative_error
from torch import nn

import anabranch

N, K, GROUP = 80, 128, 64
LARGE = 1024  # its floats are more than what load makes of so few bytes
SHIFTS = torch.arange(0, 32, 4, dtype=torch.int32)
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _words(integers: torch.Tensor) -> torch.Tensor:
    """Eight integers of 4 bits of the last dimension in a word."""
    return (integers << SHIFTS).sum(-1).to(torch.int32)


def _mix(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, dtype=torch.int32)


class Layout(nn.Module):
    """x @ w, of a weight [k, n] that `dequantized` makes in a dtype."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.dequantized(torch.float32).to(x.dtype)

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() @ self.dequantized(torch.float64)


class Gptq(Layout):
    """Words of depths, zero points in words of columns, and the group of each depth."""

    def __init__(self, n: int = N, k: int = K) -> None:
        super().__init__()
        self.register_buffer("qweight", _words(_mix(0, 16, k // 8, n, 8)))
        self.register_buffer("qzeros", _words(_mix(0, 16, k // GROUP, n // 8, 8)))
        self.register_buffer("scales", torch.rand(k // GROUP, n) * 0.02 + 0.01)
        self.register_buffer("g_idx", torch.arange(k, dtype=torch.int32) // GROUP)
        self.register_buffer("shifts", SHIFTS.unsqueeze(0))

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        words = self.qweight.unsqueeze(1).expand(-1, 8, -1)
        weight = ((words >> self.shifts.unsqueeze(-1)) & 15).flatten(0, 1)
        words = self.qzeros.unsqueeze(2).expand(-1, -1, 8)
        zeros = ((words >> self.shifts.unsqueeze(0)) & 15).flatten(1)
        group = self.g_idx.long()
        return self.scales.to(dtype)[group] * (weight - zeros[group])


def by_activation(n: int = N, k: int = K) -> Gptq:
    """GPTQ's weight whose depths are in groups by the order of their activations."""
    module = Gptq(n, k)
    module.g_idx.copy_(module.g_idx[torch.randperm(k)])
    return module


class Awq(Layout):
    """Words of columns in an order of their own."""

    def __init__(self, n: int = N, k: int = K) -> None:
        super().__init__()
        self.register_buffer("qweight", _words(_mix(0, 16, k, n // 8, 8)))
        self.register_buffer("qzeros", _words(_mix(0, 16, k // GROUP, n // 8, 8)))
        self.register_buffer("scales", torch.rand(k // GROUP, n) * 0.02 + 0.01)

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        shifts = torch.arange(0, 32, 4, dtype=torch.int32)
        order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
        weight, zeros = (
            ((words[:, :, None] >> shifts)[:, :, order] & 15).flatten(1)
            for words in (self.qweight, self.qzeros)
        )
        scales = self.scales.to(dtype).repeat_interleave(GROUP, dim=0)
        zeros = zeros.to(torch.int8).repeat_interleave(GROUP, dim=0)
        return (weight.to(torch.int8) - zeros) * scales


class Table(Layout):
    """Positions in a table of 16 numbers, pairs in a byte, a scale for each block of the
    flat weight [n, k]."""

    def __init__(self, block: int, n: int = N, k: int = K) -> None:
        super().__init__()
        self.block, self.shape = block, (n, k)
        pairs = torch.randint(0, 256, (n * k // 2,), dtype=torch.uint8)
        self.register_buffer("pairs", pairs)
        self.register_buffer("scale", torch.rand(n * k // block) + 0.5)
        self.register_buffer("table", torch.randn(16).sort().values)

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        index = torch.stack([self.pairs >> 4, self.pairs & 15], -1).flatten().int()
        numbers = self.table.to(dtype)[index].view(-1, self.block)
        return (numbers * self.scale.to(dtype).unsqueeze(-1)).view(self.shape).t()


class Mxfp4(Layout):
    """Pairs of e2m1 in a byte, and powers of two for each 32 depths."""

    def __init__(self, n: int = N, k: int = K) -> None:
        super().__init__()
        pairs = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
        self.register_buffer("pairs", pairs)
        scale = torch.randint(120, 130, (n, k // 32), dtype=torch.uint8)
        self.register_buffer("scale", scale)
        self.register_buffer("table", torch.cat([FP4, -FP4]))

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        index = torch.stack([self.pairs & 15, self.pairs >> 4], -1).flatten(1).long()
        numbers = self.table.to(dtype)[index].unflatten(1, (-1, 32))
        exponent = self.scale.to(torch.int32) - 127
        return torch.ldexp(numbers, exponent.unsqueeze(-1)).flatten(1).t()


class Mxfp8(Layout):
    """Floats of eight bits, and bytes that are exponents of each 32 depths."""

    def __init__(self, n: int = N, k: int = K) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(n, k).to(torch.float8_e4m3fn))
        scale = torch.randint(120, 130, (n, k // 32), dtype=torch.uint8)
        self.register_buffer("scale", scale)

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        scale = (self.scale.to(torch.int32) << 23).view(torch.float32).to(dtype)
        groups = self.weight.to(dtype).unflatten(1, (-1, 32)) * scale.unsqueeze(-1)
        return groups.flatten(1).t()


LAYOUTS = {
    "gptq": Gptq,
    "gptq by activation": by_activation,
    "awq": Awq,
    "nf4": lambda: Table(64),
    "one scale": lambda: Table(N * K),
    "mxfp4": Mxfp4,
    "mxfp8": Mxfp8,
}


@pytest.mark.parametrize("rows", [1, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_weight_stays_in_its_few_bits(layout, dtype, rows, tmp_path) -> None:
    module, x = LAYOUTS[layout]().eval(), torch.randn(rows, K).to(dtype)
    config = anabranch.Config(freeze=True, dump=str(tmp_path))
    with torch.no_grad():
        found = anabranch.compile(module, config=config, dynamic=False)(x)
        eager, expected = module(x), module.exact(x)
    assert found.dtype == eager.dtype
    allowed = 1.5 * relative_error(eager, expected) + 1e-6
    assert relative_error(found, expected) <= allowed
    assert anabranch.counters.fallback_calls == 0
    assert reads_few_bits(tmp_path)


LARGE_LAYOUTS = {
    "gptq": lambda: Gptq(LARGE, LARGE),
    "gptq by activation": lambda: by_activation(LARGE, LARGE),
    "awq": lambda: Awq(LARGE, LARGE),
    "nf4": lambda: Table(64, LARGE, LARGE),
    "mxfp4": lambda: Mxfp4(LARGE, LARGE),
    "mxfp8": lambda: Mxfp8(LARGE, LARGE),
}


@pytest.mark.parametrize("layout", LARGE_LAYOUTS)
def test_a_call_computes_the_product_alone(layout, tmp_path) -> None:
    """The integers and floats of a large weight are nobody's result, so neither load
    keeps them nor a call makes them."""
    module, x = LARGE_LAYOUTS[layout]().eval(), torch.randn(2, LARGE)
    config = anabranch.Config(freeze=True, dump=str(tmp_path))
    with torch.no_grad():
        found = anabranch.compile(module, config=config, dynamic=False)(x)
        torch.testing.assert_close(found, module(x), rtol=1e-4, atol=1e-3)
    (text,) = (path.read_text() for path in tmp_path.rglob("*fuse.mlir"))
    kinds = re.findall(r'} {(initialize, )?kind = "(\w+)"}', text)
    # A kernel puts depths in the order of the weight's.
    ordered = ["loops"] if layout == "gptq by activation" else []
    found_kinds = [kind for at_load, kind in kinds if not at_load]
    assert found_kinds == [*ordered, "contraction"]


def test_groups_beyond_the_scales_are_an_error() -> None:
    """A list that names a group too many has no layout: the call says so."""
    module, x = Gptq().eval(), torch.randn(2, K)
    module.scales = module.scales[:1].clone()
    compiled = anabranch.compile(module, config=anabranch.Config(freeze=True))
    with torch.no_grad(), pytest.raises(IndexError, match="index"):
        compiled(x)


@pytest.mark.parametrize("made", [Gptq, by_activation])
def test_groups_that_change(made) -> None:
    """The layout relies on the groups that the list had when it was compiled: another
    order has another layout, and groups of other sizes have none."""
    module, x = made().eval(), torch.randn(2, K)
    compiled = anabranch.compile(module, config=anabranch.Config(freeze=True))
    lists = [module.g_idx.clone(), module.g_idx.flip(0), module.g_idx.clone()]
    lists[2][lists[2].argmax()] = 0
    with torch.no_grad():
        for changed in lists:
            module.g_idx.copy_(changed)
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 5, 64])
@pytest.mark.parametrize("depths", [K, K - 16])
def test_an_order_of_depths_in_every_form(depths, rows, tmp_path) -> None:
    """Two weights of one input, each with an order of its own, and the last group
    shorter, behind a norm and between pointwise operators: frozen, for any number of
    rows, with rows in bytes, and as a package."""
    first, second = (by_activation(N, K) for _ in range(2))
    for module in (first, second):
        module.qweight = module.qweight[: depths // 8].clone()
        module.g_idx = module.g_idx[module.g_idx.argsort()[:depths].sort().values]
    norm = nn.RMSNorm(depths)

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.norm = first, second, norm

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.norm(x)
            return torch.nn.functional.silu(self.first(x)) * self.second(x)

    module, x = Gated().eval(), torch.randn(rows, depths)
    wide = torch.nn.functional.rms_norm(x.double(), (depths,))
    expected = torch.nn.functional.silu(first.exact(wide)) * second.exact(wide)
    bytes_of_rows = anabranch.Config(freeze=True, activations="int8")
    found = {
        "frozen": anabranch.compile(
            module, config=anabranch.Config(freeze=True), dynamic=False
        ),
        "any": anabranch.compile(
            module, config=anabranch.Config(freeze=True), dynamic=True
        ),
        "watched": anabranch.compile(module, dynamic=False),
        "bytes": anabranch.compile(module, config=bytes_of_rows, dynamic=False),
    }
    with torch.no_grad():
        anabranch.export(module, tmp_path / "package", (x,))
        found["package"] = anabranch.load(tmp_path / "package")
        for form, function in found.items():
            allowed = 2e-2 if form == "bytes" else 2e-6
            result = function(x)
            result = result[0] if isinstance(result, (list, tuple)) else result
            assert relative_error(result, expected) <= allowed, form


def test_a_position_beyond_the_table_is_an_error() -> None:
    """A table of ten numbers does not hold all integers of four bits."""
    module, x = Table(64).eval(), torch.randn(2, K)
    module.table = module.table[:10].clone()
    module.pairs.fill_(0x99)
    compiled = anabranch.compile(module, config=anabranch.Config(freeze=True))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)
        module.pairs.fill_(0xAA)
        with pytest.raises(IndexError, match="index"):
            compiled(x)
