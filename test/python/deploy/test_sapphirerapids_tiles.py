"""Tiles of products for Sapphire Rapids by a model of the core: which instructions a
kernel runs, and their share of the peak of its tile registers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import anabranch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmark"))
from machine_code import analyser, core, table, timing, trace
from machine_code.caches import Caches

TARGET = "sapphirerapids"
# A tile has the rows, and panels of 32 columns. A panel's depth is several blocks.
ROWS, DEPTH, COLUMNS = 64, 1280, 2048

pytestmark = [
    pytest.mark.skipif(
        not shutil.which(analyser.MCA), reason="llvm-mca is not installed"
    ),
    pytest.mark.skipif(
        "avx512_bf16" not in Path("/proc/cpuinfo").read_text(),
        reason="this processor runs nothing of the kernel but its tile registers",
    ),
]


def test_a_tile_overlaps_its_epilogue_and_its_products(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(DEPTH, COLUMNS), nn.GELU()).bfloat16().eval()
    package = tmp_path / "model.anb"
    x = torch.randn(ROWS, DEPTH, dtype=torch.bfloat16)
    anabranch.export(model, package, (x,), targets=[TARGET])
    library = next(package.rglob("kernels.so"))
    functions = table.listing_of(library)
    kernel = table.kernel_of_tiles(functions)
    assert kernel is not None
    found = trace.traced(library, functions, kernel, 2)
    timings = timing.timings_of(found.places, TARGET, found.tile_rows)
    near, far = (core.simulate(found, timings, one) for one in (None, Caches()))

    panels = near.products // (ROWS // 16 * 2 * DEPTH // 32)
    assert near.products == panels * (ROWS // 16 * 2 * DEPTH // 32) > 0
    assert near.cycles <= far.cycles
    # The epilogue alone would take half of the time of the products.
    assert 0.75 < near.share(analyser.TILE_PRODUCT_CYCLES) <= 1
    # Each tile's panels come from the last cache, and are fetched ahead.
    assert far.from_l3 * 64 >= panels * 32 * DEPTH * 2
