"""Floats of eight and four bits as lists of their values: the references of tests.

Rounding finds the nearest of a list, in float64. MX blocks are computed by loops, and
compared with what operators make, eager and compiled."""

from __future__ import annotations

import numpy as np
import torch

from pictures import compiled
from torchair._impl.operators.quantisation.small_floats import unpack_pairs

__all__ = [
    "BITS",
    "LARGEST",
    "MxReference",
    "both",
    "check_rows",
    "codes_of",
    "example",
    "hifloat8_values",
    "round_to",
    "values_of",
]

# (bits of the exponent, of the mantissa, bias, whether the top codes are special)
_SHAPES = {
    "float8_e4m3fn": (4, 3, 7),
    "float8_e5m2": (5, 2, 15),
    "float4_e2m1fn_x2": (2, 1, 1),
    "float4_e1m2fn_x2": (1, 2, 1),
}
BITS = {name: 1 + shape[0] + shape[1] for name, shape in _SHAPES.items()}
LARGEST = {
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
    "float4_e2m1fn_x2": 6.0,
    "float4_e1m2fn_x2": 1.75,
}
EMAX = {
    "float8_e4m3fn": 8,
    "float8_e5m2": 15,
    "float4_e2m1fn_x2": 2,
    "float4_e1m2fn_x2": 0,
}


def values_of(name: str) -> np.ndarray:
    """The values of the codes without a sign, ascending, up to the largest number."""
    exponent, mantissa, bias = _SHAPES[name]
    found = []
    for code in range(1 << (exponent + mantissa)):
        field, steps = code >> mantissa, code & ((1 << mantissa) - 1)
        if field == 0:
            found.append(steps * 2.0 ** (1 - bias - mantissa))
        else:
            found.append((1 + steps / 2**mantissa) * 2.0 ** (field - bias))
    values = np.array(found)
    return values[values <= LARGEST[name]]


def hifloat8_values() -> np.ndarray:
    """The values of the codes 0 to 127, by the table of the format's paper: infinity at
    0x6F."""
    found = []
    for code in range(128):
        text = f"{code:07b}"
        for prefix, width in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0)):
            if text.startswith(prefix):
                rest = text[len(prefix) :]
                exponent = 0
                if width:
                    size = int("1" + rest[1:width], 2)
                    exponent = -size if rest[0] == "1" else size
                fraction = rest[width:]
                part = int(fraction, 2) / 2 ** len(fraction)
                found.append((1 + part) * 2.0**exponent)
                break
        else:
            found.append(0.0 if code == 0 else 2.0 ** (code - 23))
    values = np.array(found)
    values[0x6F] = np.inf
    return values


def round_to(
    values: np.ndarray, grid: np.ndarray, rounding: str = "rint"
) -> np.ndarray:
    """The place in an ascending grid of magnitudes for each number, and beyond it the last
    place."""
    magnitude = np.minimum(np.abs(values), grid[-1])
    above = np.clip(np.searchsorted(grid, magnitude, side="left"), 0, len(grid) - 1)
    below = np.where(grid[above] == magnitude, above, np.maximum(above - 1, 0))
    if rounding == "floor":
        return np.where(values < 0, above, below)
    up, down = grid[above] - magnitude, magnitude - grid[below]
    tie = above if rounding == "round" else np.where(below % 2 == 0, below, above)
    return np.where(up < down, above, np.where(down < up, below, tie))


class MxReference:
    """MX blocks along the last dimension of float64 rows, one block after another."""

    def __init__(self, name: str, rounding="rint", size=32, algorithm=0, largest=0.0):
        self.name, self.rounding, self.size = name, rounding, size
        self.algorithm, self.largest = algorithm, largest

    def scale(self, top: float, floor: float = 0.0) -> int:
        """The e8m0 code of a block."""
        if self.algorithm == 0:
            if top == 0:
                return 0
            exponent = int(np.frexp(top)[1]) - 1
            return max(exponent - EMAX[self.name] + 127, 0)
        most = self.largest or LARGEST[self.name]
        quotient = float(np.float32(max(top, floor)) / np.float32(most))
        if quotient == 0:
            return 0
        mantissa, exponent = np.frexp(quotient)
        code = int(exponent) - 1 + 127 + (1 if mantissa > 0.5 else 0)
        return max(code, 0)

    def rows(
        self, x: torch.Tensor, floor: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """The codes of (..., n), and the scales (..., ceil(n / size))."""
        values = x.double().numpy()
        flat = values.reshape(-1, values.shape[-1])
        blocks = -(-flat.shape[1] // self.size)
        codes = np.zeros(flat.shape, dtype=np.int64)
        scales = np.zeros((flat.shape[0], blocks), dtype=np.int64)
        grid = values_of(self.name)
        for i, row in enumerate(flat):
            for b in range(blocks):
                part = slice(b * self.size, (b + 1) * self.size)
                scale = self.scale(np.abs(row[part]).max(), floor)
                scales[i, b] = scale
                scaled = row[part] / 2.0 ** (scale - 127)
                sign = np.signbit(scaled) << (BITS[self.name] - 1)
                codes[i, part] = round_to(scaled, grid, self.rounding) | sign
        shape = values.shape[:-1]
        return codes.reshape(values.shape), scales.reshape(*shape, blocks)


def codes_of(stored: torch.Tensor, name: str) -> np.ndarray:
    if name.startswith("float4"):
        return unpack_pairs(stored).numpy()
    return stored.view(torch.uint8).int().numpy()


def check_rows(found, wanted, name: str) -> None:
    """Compares (stored, scales in pairs) with codes and scales along the last dimension."""
    stored, pairs = found
    codes, scales = wanted
    np.testing.assert_array_equal(codes_of(stored, name), codes)
    assert pairs.dtype == torch.uint8
    filled = np.zeros(pairs.flatten(-2).shape, dtype=np.int64)
    filled[..., : scales.shape[-1]] = scales
    np.testing.assert_array_equal(pairs.flatten(-2).numpy(), filled)


def both(function, *arguments):
    """The results, eager and compiled."""
    yield function(*arguments)
    yield compiled(function)(*arguments)


def example(*shape: int, dtype=torch.bfloat16) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(*shape) * torch.exp2(torch.randint(-9, 9, shape).float())
    x.view(-1)[::7] = 0
    return x.to(dtype)
