"""Linear layers that dequantise their weight in the graph, and their exact results."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import anabranch


@dataclass(frozen=True)
class Case:
    """A weight [n, k] of `bits` bits, with a scale for each `group` of k (0: for all).

    zeros   "center" (one number), "float" or "int" (of each group), "added" (after
            the scale) or "none"
    packed  two integers of 4 bits in a byte; the order of the nibbles
    """

    n: int
    k: int
    group: int = 32
    bits: int = 4
    zeros: str = "center"
    packed: str = "pairs"
    dtype: torch.dtype = torch.float32
    transposed: bool = False

    @property
    def groups(self) -> int:
        return self.k // self.group if self.group else 1


class Quantized(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = c = case
        signed = c.bits == 8 and c.zeros in ("none", "center")
        low = -128 if signed else 0
        whole = torch.randint(low, low + 2**c.bits, (c.n, c.k)).to(
            torch.int8 if signed else torch.uint8
        )
        whole[:, 0], whole[0] = low, low + 2**c.bits - 1
        self.register_buffer("weight", self._pack(whole))
        shape = (c.n, c.groups, 1)
        self.register_buffer("scale", (torch.rand(shape) * 0.02 + 0.01).to(c.dtype))
        if c.zeros in ("float", "added"):
            self.register_buffer("zero", (torch.rand(shape) * 2 - 1).to(c.dtype))
        elif c.zeros == "int":
            zero = torch.randint(0, 2**c.bits, shape, dtype=torch.uint8)
            self.register_buffer("zero", zero)

    def _pack(self, whole: torch.Tensor) -> torch.Tensor:
        c = self.case
        if c.bits == 8:
            return whole.t().contiguous() if c.transposed else whole
        if c.packed == "pairs":
            return whole[:, ::2] | whole[:, 1::2] << 4
        return whole[:, : c.k // 2] | whole[:, c.k // 2 :] << 4

    def integers(self) -> torch.Tensor:
        c = self.case
        if c.bits == 8:
            return self.weight.t() if c.transposed else self.weight
        parts = [self.weight & 15, self.weight >> 4]
        if c.packed == "pairs":
            return torch.stack(parts, -1).flatten(1)
        return torch.cat(parts, 1)

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        c = self.case
        w = self.integers().reshape(c.n, c.groups, -1)
        scale = self.scale.to(dtype)
        if c.zeros == "int" and c.n % 2:
            w = (w.to(torch.int32) - self.zero.to(torch.int32)).to(dtype)
        elif c.zeros in ("float", "int"):
            w = w.to(dtype) - self.zero.to(dtype)
        elif c.zeros == "center":
            w = w.to(dtype) - (8 if c.bits == 4 else 3)
        else:
            w = w.to(dtype)
        w = w * scale
        if c.zeros == "added":
            w = w + self.zero.to(dtype)
        return w.reshape(c.n, c.k)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.dequantized(x.dtype))


def exact(module: Quantized, x: torch.Tensor) -> torch.Tensor:
    """The product in float64, of the same integers, scales and activations."""
    return x.double() @ module.dequantized(torch.float64).t()


def beside_a_bad_row(
    rows: int, bad: float, config: anabranch.Config
) -> tuple[Quantized, torch.Tensor, torch.Tensor]:
    """A compiled product of rows of which one has a `bad` number: the module, the other
    rows and their results. No result of the bad row is finite."""
    module = Quantized(Case(40, 128)).eval()
    x = torch.randn(rows, 128)
    x[1, 77] = bad
    with torch.no_grad():
        found = anabranch.compile(module, config=config)(x)
    assert not found[1].isfinite().any()
    keep = [0, *range(2, rows)]
    return module, x[keep], found[keep]


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    norm = expected.double().norm().item()
    return (found.double() - expected.double()).norm().item() / max(norm, 1e-30)


def largest_prepared_float(folder: Path) -> int:
    """The largest number of elements of a float tensor that is made at load."""
    sizes = [0]
    for path in folder.rglob("*fuse.mlir"):
        # A value that is made at load ends with its yield and this mark.
        for shape in re.findall(
            r"anabranch\.yield [^\n]*tensor<([0-9x]+)x(?:f32|bf16|f16)>\n[^\n]*{initialize",
            path.read_text(),
        ):
            sizes.append(math.prod(int(size) for size in shape.split("x")))
    return max(sizes)


def multiplies_bytes(folder: Path) -> bool:
    """Whether all products of the compilation that wrote its dumps to this folder
    multiply bytes."""
    texts = [path.read_text() for path in folder.rglob("*lower.mlir")]
    text = "".join(texts)
    integers = re.search(r"= arith.muli .*\n.*arith.addi %out", text)
    floats = re.search(r"= arith.mulf .*\n.*arith.addf %out", text)
    return bool(integers) and not floats


def reads_few_bits(folder: Path) -> bool:
    """Whether the compilation that wrote its dumps to this folder keeps the weight
    packed."""
    texts = [path.read_text() for path in folder.rglob("*fuse.mlir")]
    assert texts
    return all("anabranch.quantized_weight" in text for text in texts)
