"""Cycles of a loop, and the peak of a core, by the scheduling models of LLVM.

llvm-mca takes every load from the first-level cache and every branch as predicted."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from machine_code.loops import Instruction, Loop, bytes_loaded

MCA = "llvm-mca-19"
ARM = "aarch64-linux-gnu"
X86 = "x86_64-linux-gnu"
# The targets whose cores LLVM models, and what its models lack of them.
TARGETS = {
    "neoverse-n1": (ARM, ""),
    "neoverse-v1": (ARM, "+bf16,+i8mm,+sve"),
    "neoverse-v2": (ARM, "+bf16,+i8mm,+sve,+sve2"),
    "sapphirerapids": (X86, ""),
    "znver4": (X86, ""),
}
# The length of SVE's registers on these cores, in bytes.
SVE_BYTES = {"neoverse-v1": 32}

# Multiply-adds of a product of whole tile registers, and cycles from one to the next:
# Intel's Optimization Reference Manual (248966).
TILE_MULTIPLIES = (("bf16", "tdpbf16ps", 16 * 16 * 32), ("int8", "tdpb", 16 * 16 * 64))
TILE_PRODUCT_CYCLES = 16
WITH_TILES = ("sapphirerapids",)

# Multiply-adds of an instruction for each register of 16 bytes, by its name.
MULTIPLIES = (
    ("int8", r"[us]+mmla$", 32),
    ("bf16", r"bfmmla$", 16),
    ("int8", r"[us]+dot$|vpdpb", 16),
    ("bf16", r"bfdot$|vdpbf16", 8),
    ("f16", r"fml[as] .*(\.8h|\.h)|vfn?m(add|sub)\d+ph", 8),
    ("f32", r"fml[as] .*(\.4s|z\d+\.s)|vfn?m(add|sub)\d+ps", 4),
    ("f64", r"fml[as] .*(\.2d|z\d+\.d)|vfn?m(add|sub)\d+pd", 2),
)
# The instructions of a core's peak; those that it lacks do not count.
PEAKS = {
    ARM: (
        *("fmla v0.4s, v1.4s, v2.4s", "fmla v0.8h, v1.8h, v2.8h"),
        *("sdot v0.4s, v1.16b, v2.16b", "smmla v0.4s, v1.16b, v2.16b"),
        *("bfdot v0.4s, v1.8h, v2.8h", "bfmmla v0.4s, v1.8h, v2.8h"),
        "fmla v0.2d, v1.2d, v2.2d",
    ),
    X86: (
        *("vfmadd231ps %zmm0, %zmm1, %zmm2", "vfmadd231pd %zmm0, %zmm1, %zmm2"),
        *("vpdpbusd %zmm0, %zmm1, %zmm2", "vdpbf16ps %zmm0, %zmm1, %zmm2"),
        "vfmadd231ph %zmm0, %zmm1, %zmm2",
    ),
}
# Which of these a core has; LLVM's models have a time for every instruction.
LACKING = {
    "neoverse-n1": ("mmla", "bfdot"),
    "znver4": ("ph ",),
}


def multiply_adds(text: str, vector_bytes: int = 16) -> tuple[str, int]:
    """The dtype and the number of multiply-adds of an instruction."""
    name = text.split()[0]
    for dtype, start, count in TILE_MULTIPLIES:
        if name.startswith(start):
            return dtype, count
    for dtype, pattern, count in MULTIPLIES:
        if re.match(pattern, name) or (" " in pattern and re.match(pattern, text)):
            registers = {"%zmm": 4, "%ymm": 2}
            wide = next((n for r, n in registers.items() if r in text), 1)
            if re.search(r"\bz\d+\.", text):
                wide = vector_bytes // 16
            return dtype, count * wide
    return "", 0


def run_mca(target: str, assembly: str, *options: str) -> dict:
    """The views of the whole text, and the names of the core's ports."""
    triple, features = TARGETS[target]
    done = subprocess.run(
        [
            *(MCA, "-json", f"-mtriple={triple}", f"-mcpu={target}"),
            *([f"-mattr={features}"] if features else []),
            *options,
        ],
        input=assembly,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{MCA} cannot read a loop: {done.stderr.strip()[:400]}")
    told = json.loads(done.stdout)
    return told["CodeRegions"][0] | {"resources": told["TargetInfo"]["Resources"]}


@cache
def peaks(target: str) -> dict[str, float]:
    """Multiply-adds in a cycle of the fastest instruction of each dtype."""
    found: dict[str, float] = {}
    for text in PEAKS[TARGETS[target][0]]:
        if any(word in f"{text} " for word in LACKING.get(target, ())):
            continue
        view = run_mca(target, text)["InstructionInfoView"]["InstructionList"]
        dtype, count = multiply_adds(text)
        found[dtype] = max(found.get(dtype, 0), count / view[0]["RThroughput"])
    if target in WITH_TILES:
        for dtype, _, count in TILE_MULTIPLIES:
            found[dtype] = count / TILE_PRODUCT_CYCLES
    return found


@dataclass(frozen=True)
class Figures:
    """One round of a loop: work and cycles. `dtype` is that of most multiply-adds."""

    function: str
    instructions: int
    cycles: float
    dtype: str
    multiply_adds: int
    loaded: int
    spills: int

    @property
    def rate(self) -> float:
        return self.multiply_adds / self.cycles


def cycles_of(loop: Loop, target: str) -> float:
    """Cycles of a round, once the loop runs."""
    few, many = 100, 300
    text = loop.assembly()
    first, second = (
        run_mca(target, text, f"-iterations={count}")["SummaryView"]["TotalCycles"]
        for count in (few, many)
    )
    return (second - first) / (many - few)


def work_of(body: Sequence[Instruction], vector_bytes: int) -> tuple[str, int]:
    sums: dict[str, int] = {}
    for one in body:
        dtype, count = multiply_adds(one.text, vector_bytes)
        if count:
            sums[dtype] = sums.get(dtype, 0) + count
    return max(sums.items(), key=lambda item: item[1], default=("", 0))


def analyse(loop: Loop, target: str) -> Figures:
    width = SVE_BYTES.get(target, 16)
    is_arm = TARGETS[target][0] == ARM
    return Figures(
        loop.function,
        len(loop.body),
        cycles_of(loop, target),
        *work_of(loop.body, width),
        sum(bytes_loaded(one, is_arm, width) for one in loop.body),
        loop.spills,
    )
