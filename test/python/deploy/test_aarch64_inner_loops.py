"""Inner loops of products for Neoverse V1 and V2, by LLVM's scheduling models: their share
of the core's peak, and that none uses the stack."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import anabranch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmark"))
from machine_code import analyser, loops, table

TARGETS = ["neoverse-v1", "neoverse-v2"]
ASKED = TARGETS if "ANABRANCH_EMULATE" in os.environ else TARGETS[:1]
ROWS, INNER, COLUMNS = 64, 256, 512

pytestmark = pytest.mark.skipif(
    not shutil.which(analyser.MCA), reason="llvm-mca is not installed"
)


class Bytes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shape = (INNER, COLUMNS)
        self.weight = nn.Buffer(torch.randint(-127, 127, shape, dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(x, self.weight)


class Nibbles(nn.Module):
    """A product of one row with weights of four bits."""

    def __init__(self) -> None:
        super().__init__()
        codes = torch.randint(0, 16, (COLUMNS, INNER), dtype=torch.int32)
        self.weight = nn.Buffer(torch._convert_weight_to_int4pack_for_cpu(codes, 2))
        self.scales = nn.Buffer(torch.rand(INNER // 128, COLUMNS, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._weight_int4pack_mm_for_cpu(x, self.weight, 128, self.scales)


class ByteWeights(nn.Module):
    """A product of one row with weights of eight bits."""

    def __init__(self) -> None:
        super().__init__()
        shape = (COLUMNS, INNER)
        self.weight = nn.Buffer(torch.randint(-127, 127, shape, dtype=torch.int8))
        self.scales = nn.Buffer(torch.rand(COLUMNS).bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._weight_int8pack_mm(x, self.weight, self.scales)


def linear(dtype: torch.dtype) -> nn.Module:
    return nn.Linear(INNER, COLUMNS).to(dtype)


CASES: dict[str, tuple[Callable[[], nn.Module], torch.Tensor, float]] = {
    "f32": (lambda: linear(torch.float32), torch.randn(ROWS, INNER), 0.9),
    "bf16": (
        lambda: linear(torch.bfloat16),
        torch.randn(ROWS, INNER, dtype=torch.bfloat16),
        0.85,
    ),
    "int8": (Bytes, torch.randint(-127, 127, (ROWS, INNER), dtype=torch.int8), 0.85),
}


class Calls(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.function(*values)


def attention(
    queries: int, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    query = torch.randn(1, 12, queries, 64, dtype=dtype)
    keys_and_values = torch.randn(2, 1, 12, 512, 64, dtype=dtype)
    return Calls(F.scaled_dot_product_attention), (query, *keys_and_values)


def winograd(
    channels: int, size: int, images: int
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    model = nn.Conv2d(channels, channels, 3, padding=1)
    return model, (torch.randn(images, channels, size, size),)


def depthwise(
    size: int, dtype: torch.dtype
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    model = nn.Conv2d(48, 48, size, padding=size // 2, groups=48)
    return model.to(dtype), (torch.randn(1, 48, 14, 14, dtype=dtype),)


# Other plans than those of large products.
PLANS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "row": lambda: (linear(torch.float32), (torch.randn(1, INNER),)),
    "softmax": lambda: (nn.Softmax(-1), (torch.randn(64, 256),)),
    "layer norm": lambda: (
        nn.Sequential(nn.LayerNorm(256), nn.GELU()),
        (torch.randn(64, 256),),
    ),
    "decode": lambda: attention(1),
    "two queries": lambda: attention(2),
    "five queries": lambda: attention(5),
    "five queries in bf16": lambda: attention(5, torch.bfloat16),
    "eight queries in bf16": lambda: attention(8, torch.bfloat16),
    "winograd of many tiles": lambda: winograd(64, 56, 1),
    "winograd of few tiles": lambda: winograd(64, 7, 2),
    "depthwise": lambda: depthwise(3, torch.float32),
    "depthwise of 5 x 5": lambda: depthwise(5, torch.float32),
    "depthwise of 7 x 7": lambda: depthwise(7, torch.float32),
    "depthwise in bf16": lambda: depthwise(3, torch.bfloat16),
    "convolution": lambda: (
        nn.Conv2d(16, 64, 3, stride=2, padding=1),
        (torch.randn(1, 16, 28, 28),),
    ),
    "transform": lambda: (
        Calls(lambda x: torch.fft.rfft(x).abs()),
        (torch.randn(8, 256),),
    ),
}


def inner_loops(
    model: nn.Module, given: tuple[torch.Tensor, ...], target: str, folder: Path
) -> list[loops.Loop]:
    package = folder / "package.anb"
    anabranch.export(model.eval(), package, given, targets=[target])
    return loops.inner_loops(next(package.rglob("kernels.so")))


def figures(
    model: nn.Module, given: torch.Tensor, target: str, folder: Path
) -> list[analyser.Figures]:
    found = inner_loops(model, (given,), target, folder)
    return [analyser.analyse(one, target) for one in found]


@pytest.mark.parametrize("target", ASKED)
@pytest.mark.parametrize("dtype", CASES)
def test_share_of_the_peak(dtype: str, target: str, tmp_path: Path) -> None:
    make, given, share = CASES[dtype]
    found = figures(make(), given, target, tmp_path)
    hottest = table.hottest(found)
    assert hottest.dtype == dtype
    assert hottest.rate >= share * analyser.peaks(target)[dtype]
    assert sum(one.spills for one in found) == 0


@pytest.mark.parametrize("target", ASKED)
@pytest.mark.parametrize("channels, taps", [(3, 7), (3, 3), (16, 5)])
def test_share_of_the_peak_of_windows(
    channels: int, taps: int, target: str, tmp_path: Path
) -> None:
    """Rows of windows are read in a copy of a part of the image."""
    stride = 2 if channels < 4 else 1
    model = nn.Conv2d(channels, 64, taps, stride=stride, padding=taps // 2)
    found = figures(model, torch.randn(1, channels, 224, 224), target, tmp_path)
    assert table.hottest(found).rate >= 0.9 * analyser.peaks(target)["f32"]
    assert sum(one.spills for one in found) == 0


# Operands that a tile copies to the panels of matrix instructions.
COPIED: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "attention": lambda: attention(64, torch.bfloat16),
    "four bits": lambda: (Nibbles(), (torch.randn(ROWS, INNER).bfloat16(),)),
    "eight bits": lambda: (ByteWeights(), (torch.randn(ROWS, INNER).bfloat16(),)),
}


@pytest.mark.parametrize("target", ASKED)
@pytest.mark.parametrize("name", COPIED)
def test_share_of_the_peak_of_copies(name: str, target: str, tmp_path: Path) -> None:
    found = [
        analyser.analyse(one, target)
        for one in inner_loops(*COPIED[name](), target, tmp_path)
    ]
    hottest = table.hottest(found)
    assert hottest.dtype == "bf16"
    assert hottest.rate >= 0.85 * analyser.peaks(target)["bf16"]


@pytest.mark.parametrize("target", ASKED)
@pytest.mark.parametrize("weights, least", [(Nibbles, 20), (ByteWeights, 32)])
def test_weights_of_few_bits(
    weights: Callable[[], nn.Module], least: float, target: str, tmp_path: Path
) -> None:
    """Bytes a cycle that the loops of a row read. L2 gives 32, the last cache 16. Each vector
    of nibbles takes three instructions, of which a core begins four in a cycle. The digits
    of the row are loaded besides. Memory gives a core of a full chip less: 300 GB/s for 64
    cores of 2.6 GHz are 1.8 bytes a cycle."""
    given = torch.randn(1, INNER, dtype=torch.bfloat16)
    found = figures(weights(), given, target, tmp_path)
    products = [one for one in found if one.dtype]
    assert min(one.loaded / one.cycles for one in products) >= least
    assert sum(one.spills for one in products) == 0


@pytest.mark.parametrize("target", ASKED)
@pytest.mark.parametrize("name", PLANS)
def test_no_spills(name: str, target: str, tmp_path: Path) -> None:
    found = inner_loops(*PLANS[name](), target, tmp_path)
    assert found
    assert [(one.function, one.spills) for one in found if one.spills] == []
