"""Fits the polynomials of the vector math and writes MathCoefficients.h.

Every table is a minimax polynomial, found by the Remez exchange in 120-bit arithmetic.
The coefficients are rounded one after the other, the lowest power first. After each,
the others are fitted again, so that rounding costs no accuracy. Run it from any folder:

    python scripts/fit_math.py | clang-format-19 > src/native/math/MathCoefficients.h
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.prec = 120

Function = Callable[[mp.mpf], mp.mpf]
GRID = 600

HEADER = """\
//===- MathCoefficients.h - polynomials of the vector math ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Made by scripts/fit_math.py; the lowest power comes first.

#ifndef ANABRANCH_NATIVE_MATH_MATHCOEFFICIENTS_H
#define ANABRANCH_NATIVE_MATH_MATHCOEFFICIENTS_H

namespace anabranch {
namespace native {
namespace coefficients {
"""

FOOTER = """
} // namespace coefficients
} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_MATHCOEFFICIENTS_H
"""


@dataclass(frozen=True)
class Fit:
    """p(x) = sum of c[k] x^k that approaches `function` on [low, high].

    The largest `weight` times error is made as small as possible.
    """

    name: str
    about: str
    function: Function
    weight: Function
    low: float
    high: float
    terms: int
    double: bool = False


def alternating_extrema(errors: Sequence[mp.mpf], count: int) -> list[int]:
    """The grid points of the largest errors of alternating sign."""
    runs: list[list[int]] = [[0]]
    for i in range(1, len(errors)):
        if (errors[i] >= 0) == (errors[runs[-1][0]] >= 0):
            runs[-1].append(i)
        else:
            runs.append([i])
    extrema = [max(run, key=lambda i: abs(errors[i])) for run in runs]
    while len(extrema) > count:
        first, last = abs(errors[extrema[0]]), abs(errors[extrema[-1]])
        extrema.pop(0 if first < last else -1)
    return extrema


def remez(fit: Fit, fixed: Sequence[mp.mpf]) -> tuple[list[mp.mpf], mp.mpf]:
    """The free coefficients after the `fixed` lowest, and the error."""
    n = fit.terms - len(fixed)
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    xs = [
        low + (high - low) * (1 - mp.cos(mp.pi * i / GRID)) / 2 for i in range(GRID + 1)
    ]
    weights = [fit.weight(x) for x in xs]
    targets = [fit.function(x) - sum(c * x**k for k, c in enumerate(fixed)) for x in xs]
    basis = [[x ** (k + len(fixed)) for k in range(n)] for x in xs]
    points = [round(GRID * i / n) for i in range(n + 1)]
    best: tuple[mp.mpf, list[mp.mpf]] | None = None
    for _ in range(12):
        matrix, right = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for row, i in enumerate(points):
            for k in range(n):
                matrix[row, k] = basis[i][k] * weights[i]
            matrix[row, n] = (-1) ** row
            right[row] = targets[i] * weights[i]
        solution = mp.lu_solve(matrix, right)
        free = [solution[k] for k in range(n)]
        errors = [
            weights[i]
            * (targets[i] - sum(c * b for c, b in zip(free, basis[i], strict=True)))
            for i in range(GRID + 1)
        ]
        largest = max(abs(e) for e in errors)
        if best is None or largest < best[0]:
            best = largest, free
        points = alternating_extrema(errors, n + 1)
        if len(points) < n + 1 or largest < abs(solution[n]) * mp.mpf("1.01"):
            break
    assert best is not None
    return best[1], best[0]


def rounded(fit: Fit) -> tuple[list[float], mp.mpf]:
    """All coefficients in the precision of the table, and the final error."""
    coefficients: list[mp.mpf] = []
    error = mp.mpf(0)
    while len(coefficients) < fit.terms:
        free, error = remez(fit, coefficients)
        lowest = float(free[0])
        coefficients.append(mp.mpf(lowest if fit.double else float(np.float32(lowest))))
    return [float(c) for c in coefficients], error


def shown(value: float) -> str:
    """The number in C's hexadecimal form, without zeros at its end."""
    mantissa, exponent = value.hex().split("p")
    digits = mantissa.rstrip("0")
    return f"{digits}{'0' if digits.endswith('.') else ''}p{exponent}"


def print_fit(fit: Fit) -> None:
    values, error = rounded(fit)
    kind, suffix = ("double", "") if fit.double else ("float", "f")
    print(
        f"\n/// {fit.about}\n/// on [{fit.low:.6g}, {fit.high:.6g}]; error {mp.nstr(error, 3)}."
    )
    numbers = ", ".join(shown(value) + suffix for value in values)
    print(f"constexpr {kind} {fit.name}[] = {{{numbers}}};")


@dataclass(frozen=True)
class Piece:
    """Where one polynomial of a table is used, and the origin of its variable."""

    low: float
    high: float
    center: float


@dataclass(frozen=True)
class TableFit:
    """`function` by a polynomial of x - center in each piece.

    If the function is odd, so is the piece with the center zero, whose relative
    error stays small; it lacks `lead` times x. A piece that begins at `zero` or
    above has zeros. Row k of the table has the coefficients of power k, one per
    piece.
    """

    name: str
    about: str
    function: Function
    pieces: Sequence[Piece]
    terms: int
    lead: float = 0
    odd: bool = True
    zero: float = float("inf")


def fit_piece(table: TableFit, piece: Piece) -> tuple[list[float], mp.mpf]:
    if piece.low >= table.zero:
        return [0.0] * table.terms, mp.mpf(0)
    if piece.center == 0 and table.odd:
        slope = mp.diff(table.function, 0)
        odd = ratio(
            lambda z: table.function(mp.sqrt(z)) / mp.sqrt(z) - table.lead,
            slope - table.lead,
        )
        weight = ratio(lambda z: mp.sqrt(z) / table.function(mp.sqrt(z)), 1 / slope)
        fit = Fit("", "", odd, weight, 0, piece.high**2, table.terms // 2)
        values, error = rounded(fit)
        return [c for value in values for c in (0.0, value)], error

    def moved(t: mp.mpf) -> mp.mpf:
        return table.function(t + piece.center)

    low, high = piece.low - piece.center, piece.high - piece.center
    fit = Fit("", "", moved, lambda t: 1 / moved(t), low, high, table.terms)
    # Powers of a small variable: no later coefficient could make up for the
    # rounding of the first, so each is rounded alone.
    free, error = remez(fit, [])
    return [float(np.float32(float(c))) for c in free], error


def print_table(table: TableFit) -> None:
    fits = [fit_piece(table, piece) for piece in table.pieces]
    error = max(worst for _, worst in fits)
    print(f"\n/// {table.about}; error {mp.nstr(error, 3)}.")
    size = f"[{table.terms}][{len(fits)}]"
    rows = (
        ", ".join(shown(row[k]) + "f" for row, _ in fits) for k in range(table.terms)
    )
    body = ", ".join("{" + row + "}" for row in rows)
    print(f"constexpr float {table.name}{size} = {{{body}}};")


def ratio(function: Function, at_zero: float | mp.mpf) -> Function:
    """`function`, whose limit at zero is given."""
    return lambda x: mp.mpf(at_zero) if x == 0 else function(x)


def exp_tail(x: mp.mpf) -> mp.mpf:
    return (mp.expm1(x) - x) / x**2


def log_tail(x: mp.mpf) -> mp.mpf:
    return (mp.log1p(x) - x) / x**2


def erf_exponent(x: mp.mpf) -> mp.mpf:
    return mp.log(mp.erfc(x)) / x - ERF_LEADING


def erf_weight(x: mp.mpf) -> mp.mpf:
    """How an error of the exponent shows in erf = 1 - exp(exponent)."""
    return x * mp.erfc(x) / mp.erf(x)


def of_root(function: Function) -> Function:
    """x -> function(sqrt(x)), for polynomials in the square."""
    return lambda x: function(mp.sqrt(x))


LN2 = mp.log(2)
# -2 / sqrt(pi) as a float; the table holds what is missing.
ERF_LEADING = mp.mpf(float(np.float32(-1.1283791670955126)))
HALF_LN2 = float(LN2 / 2) * 1.0001
QUARTER_PI = float(mp.pi / 4) * 1.0001
ROOT = float(mp.sqrt(2))
DOUBLE_S = ((ROOT - 1) / (ROOT + 1)) ** 2 * 1.0001

FITS = [
    Fit(
        "expm1Tail",
        "(e^x - 1 - x) / x^2",
        ratio(exp_tail, 0.5),
        ratio(lambda x: x**2 / abs(mp.expm1(x)), 0),
        -HALF_LN2,
        HALF_LN2,
        5,
    ),
    Fit(
        "exp2m1",
        "(2^x - 1) / x",
        ratio(lambda x: mp.expm1(x * LN2) / x, LN2),
        ratio(lambda x: x / mp.expm1(x * LN2), 1 / LN2),
        -0.5001,
        0.5001,
        7,
    ),
    Fit(
        "exp2m1Narrow",
        "(2^x - 1) / x",
        ratio(lambda x: mp.expm1(x * LN2) / x, LN2),
        lambda x: abs(x) / 2**x,
        -0.5001,
        0.5001,
        3,
    ),
    Fit(
        "erfExponent",
        "log(1 - erf(x)) / x less its float at zero",
        ratio(erf_exponent, -2 / mp.sqrt(mp.pi) - ERF_LEADING),
        ratio(erf_weight, mp.sqrt(mp.pi) / 2),
        0,
        3.95,
        9,
    ),
    Fit(
        "logTail",
        "(log(1 + x) - x) / x^2",
        ratio(log_tail, -0.5),
        ratio(lambda x: x**2 / abs(mp.log1p(x)), 0),
        1 / ROOT - 1,
        ROOT - 1,
        9,
    ),
    Fit(
        "tanhTail",
        "(tanh(x) - x) / x^3, in x^2",
        ratio(of_root(lambda x: (mp.tanh(x) - x) / x**3), mp.mpf(-1) / 3),
        ratio(of_root(lambda x: x**3 / mp.tanh(x)), 0),
        0,
        0.5625**2,
        5,
    ),
    Fit(
        "sinTail",
        "(sin(x) - x) / x^3, in x^2",
        ratio(of_root(lambda x: (mp.sin(x) - x) / x**3), mp.mpf(-1) / 6),
        ratio(of_root(lambda x: x**3 / mp.sin(x)), 0),
        0,
        QUARTER_PI**2,
        4,
    ),
    Fit(
        "cosTail",
        "(cos(x) - 1 + x^2 / 2) / x^4, in x^2",
        ratio(of_root(lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4), mp.mpf(1) / 24),
        of_root(lambda x: x**4 / mp.cos(x)),
        0,
        QUARTER_PI**2,
        4,
    ),
    Fit(
        "atanTail",
        "(atan(x) - x) / x^3, in x^2",
        ratio(of_root(lambda x: (mp.atan(x) - x) / x**3), mp.mpf(-1) / 3),
        ratio(of_root(lambda x: x**3 / mp.atan(x)), 0),
        0,
        1,
        9,
    ),
    Fit(
        "asinTail",
        "(asin(x) - x) / x^3, in x^2",
        ratio(of_root(lambda x: (mp.asin(x) - x) / x**3), mp.mpf(1) / 6),
        ratio(of_root(lambda x: x**3 / mp.asin(x)), 0),
        0,
        0.25,
        5,
    ),
    Fit(
        "log2Double",
        "log2((1 + s) / (1 - s)) / s, in s^2",
        ratio(of_root(lambda s: 2 * mp.atanh(s) / s / LN2), 2 / LN2),
        lambda x: mp.mpf(1),
        0,
        DOUBLE_S,
        8,
        double=True,
    ),
    Fit(
        "exp2m1Double",
        "(2^x - 1) / x",
        ratio(lambda x: mp.expm1(x * LN2) / x, LN2),
        ratio(lambda x: x / mp.expm1(x * LN2), 1 / LN2),
        -0.5001,
        0.5001,
        10,
        double=True,
    ),
    Fit(
        "sinDouble",
        "sin(x) / x, in x^2",
        ratio(of_root(lambda x: mp.sin(x) / x), 1),
        of_root(lambda x: mp.mpf(1)),
        0,
        QUARTER_PI**2,
        6,
        double=True,
    ),
    Fit(
        "cosDouble",
        "cos(x), in x^2",
        of_root(mp.cos),
        lambda x: mp.mpf(1),
        0,
        QUARTER_PI**2,
        7,
        double=True,
    ),
]


def tanh_pieces() -> list[Piece]:
    """A quarter of an octave each, in the order of the five bits above bit 20.

    Bits of 2^-4 are the first; those just below it stand for all below.
    """
    pieces: list[Piece] = [Piece(0, 0, 0)] * 32
    for position in range(32):
        bits = (0x3D800000 >> 21) - 1 + position
        low, high = np.array([bits << 21, (bits + 1) << 21], np.int32).view(np.float32)
        top = min(float(high), 9.1)
        if position == 0:
            pieces[bits % 32] = Piece(0, float(high), 0)
        elif low < 9.1:
            pieces[bits % 32] = Piece(float(low), top, (float(low) + top) / 2)
        else:  # nothing is as large
            pieces[bits % 32] = Piece(8, 9, 8.5)
    centers = [float(np.float32(piece.center)) for piece in pieces]
    print("\n/// Centers of the pieces of tanhTable.")
    print(
        f"constexpr float tanhCenters[32] = {{{', '.join(shown(c) + 'f' for c in centers)}}};"
    )
    return [Piece(p.low, p.high, c) for p, c in zip(pieces, centers, strict=True)]


def erf_pieces() -> list[Piece]:
    return [
        Piece(max(0, k / 4 - 0.125), min(k / 4 + 0.125, 3.875), k / 4)
        for k in range(16)
    ]


def normal_pieces() -> list[Piece]:
    step = 13 / 32
    return [
        Piece(max(0, (k - 0.5) * step), (k + 0.5) * step, k * step) for k in range(16)
    ]


def main() -> None:
    print(HEADER, end="")
    for fit in FITS:
        print_fit(fit)
    print_table(
        TableFit(
            "erfTable",
            "erf(x) around the multiples of 1/4, around 0 less x times its float slope",
            mp.erf,
            erf_pieces(),
            6,
            -float(ERF_LEADING),
        )
    )
    print_table(
        TableFit(
            "tanhTable",
            "tanh(x) by quarters of an octave, as the low bits of bits(x) >> 21 say",
            mp.tanh,
            tanh_pieces(),
            6,
        )
    )
    for name, terms in (("normalTable", 6), ("normalTableBrief", 5)):
        print_table(
            TableFit(
                name,
                "1 - erf(x / sqrt(2)) around the multiples of 13/32",
                lambda x: mp.erfc(x / mp.sqrt(2)),
                normal_pieces(),
                terms,
                odd=False,
                zero=5.8,
            )
        )
    print(FOOTER, end="")


if __name__ == "__main__":
    main()
