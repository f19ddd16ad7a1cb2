"""Measures what the machine can do at most, and computes the least time of a kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import BOUND
from record import Row

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "bin" / "machine-peaks"
# Sizes from within the second cache to beyond most last caches.
READ_BYTES = tuple(2**power for power in (18, 20, 22, 24, 26, 29))
Peaks = Mapping[str, Any]


def measure(threads: int) -> dict[str, Any]:
    """GFLOP/s of each kind of multiplication and GB/s by bytes read, of `threads`
    together."""
    if not PROGRAM.exists():
        sys.exit(f"there is no {PROGRAM}: `ninja -C build machine-peaks` makes it")
    command = [str(PROGRAM), str(threads), *map(str, READ_BYTES)]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(text)


def best(first: Peaks, second: Peaks) -> dict[str, Any]:
    """The larger figures of two measurements: other processes only lower them."""
    reads = first["read_gbs"], second["read_gbs"]
    return {
        **{k: max(first[k], second[k]) for k in first if k != "read_gbs"},
        "read_gbs": {size: max(r[size] for r in reads) for size in reads[0]},
    }


def gflops(peaks: Peaks, multiply: str) -> float:
    """GFLOP/s of the fastest instruction for operands of this dtype. f16 counts as f32:
    sums in f16 have other results."""
    fma = peaks["fma_f32"]
    if multiply == "bf16":
        return max(fma, peaks["dot_bf16"], peaks["tile_bf16"])
    if multiply == "int8":
        return max(fma, peaks["dot_int8"], peaks["tile_int8"])
    return fma


def read_gbs(peaks: Peaks, size: float) -> float:
    """GB/s of the smallest measured memory that holds this many bytes."""
    reads = sorted((int(held), rate) for held, rate in peaks["read_gbs"].items())
    fitting = [rate for held, rate in reads if held >= size]
    return fitting[0] if fitting else reads[-1][1]


def bound(peaks: Peaks, multiply: str, flops: float, size: float, unit: str) -> Row:
    """The larger of the times of arithmetic and reading, as a contender that no other
    can beat."""
    arithmetic = flops / gflops(peaks, multiply) / 1e9
    reading = size / read_gbs(peaks, size) / 1e9
    scale = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
    if arithmetic > reading:
        note = f"{flops / 1e9:.3g} GFLOP at {gflops(peaks, multiply):.0f} GFLOP/s"
    else:
        note = f"{size / 1e6:.3g} MB at {read_gbs(peaks, size):.1f} GB/s"
    return Row(BOUND, max(arithmetic, reading) * scale, unit, note=note)
