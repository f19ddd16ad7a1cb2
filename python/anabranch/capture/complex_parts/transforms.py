"""Rules of Fourier transforms, and the operators of parts that they are made of.

Each operator transforms along one dimension, and has a kernel:

    fft_complex(re, im, dim, inverse, norm)        both parts of complex numbers
    fft_real_to_half(self, dim, norm)              the first half of a real tensor's
    fft_half_to_real(re, im, dim, length, norm)    the inverse of that

`norm` divides by nothing, by the root of the length, or by the length (0, 1, 2), as in
PyTorch's own operators. One of several dimensions divides once for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ... import purity
from .values import Complex, rule

aten = torch.ops.aten


def _split(value: Tensor) -> tuple[Tensor, Tensor]:
    re, im = torch.view_as_real(value).unbind(-1)
    return re.contiguous(), im.contiguous()


def _empty(like: Tensor, dim: int, length: Any) -> Tensor:
    size = list(like.shape)
    size[dim] = length
    return like.new_empty(size)


fft_complex = purity.define(
    "fft_complex(Tensor re, Tensor im, int dim, bool inverse, int norm)"
    " -> (Tensor, Tensor)",
    lambda re, im, dim, inverse, norm: _split(
        aten._fft_c2c(torch.complex(re, im), [dim], norm, not inverse)
    ),
    lambda re, im, *_: (re.new_empty(re.shape), im.new_empty(im.shape)),
)
fft_real_to_half = purity.define(
    "fft_real_to_half(Tensor self, int dim, int norm) -> (Tensor, Tensor)",
    lambda self, dim, norm: _split(aten._fft_r2c(self, [dim], norm, True)),
    lambda self, dim, _: tuple(
        _empty(self, dim, self.shape[dim] // 2 + 1) for _ in range(2)
    ),
)
fft_half_to_real = purity.define(
    "fft_half_to_real(Tensor re, Tensor im, int dim, SymInt length, int norm) -> Tensor",
    lambda re, im, dim, length, norm: aten._fft_c2r(
        torch.complex(re, im), [dim], norm, length
    ).contiguous(),
    lambda re, im, dim, length, _: _empty(re, dim, length),
)


def _transformed(value: Complex, dims: Sequence[Any], norm: int, inverse: bool) -> Any:
    for dim in dims:
        value = Complex(*fft_complex(value.re, value.im, int(dim), inverse, norm))
    return value


@rule(aten._fft_c2c.default)
def _fft_c2c(value: Complex, dims: Sequence[Any], norm: int, forward: bool) -> Complex:
    return _transformed(value, dims[::-1], norm, not forward)


@rule(aten._fft_r2c.default)
def _fft_r2c(value: Tensor, dims: Sequence[int], norm: int, onesided: bool) -> Complex:
    if not onesided:
        whole = Complex(value, torch.zeros_like(value))
        return _transformed(whole, dims[::-1], norm, inverse=False)
    half = Complex(*fft_real_to_half(value, dims[-1], norm))
    return _transformed(half, dims[-2::-1], norm, inverse=False)


@rule(aten._fft_c2r.default)
def _fft_c2r(value: Complex, dims: Sequence[int], norm: int, length: Any) -> Tensor:
    half = _transformed(value, dims[:-1], norm, inverse=True)
    return fft_half_to_real(half.re, half.im, dims[-1], length, norm)
