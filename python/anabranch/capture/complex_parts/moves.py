"""Rules of operators that move, choose, add up or make complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .values import PART_DTYPES, Complex, parts, rule, widened

aten = torch.ops.aten

# Operators that do the same to both parts, and the arguments that may be complex.
EACH_PART: dict[Any, tuple[int, ...]] = dict.fromkeys(
    (
        aten.alias.default,
        aten.clone.default,
        aten.detach.default,
        aten.diagonal.default,
        aten.expand.default,
        aten.flip.default,
        aten.gather.default,
        aten.index.Tensor,
        aten.index_select.default,
        aten.lift_fresh_copy.default,
        aten.permute.default,
        aten.repeat.default,
        aten.reshape.default,
        aten.resolve_conj.default,
        aten.resolve_neg.default,
        aten.roll.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.split.Tensor,
        aten.split_with_sizes.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.t.default,
        aten.transpose.int,
        aten.tril.default,
        aten.triu.default,
        aten.unbind.int,
        aten.unfold.default,
        aten.unsqueeze.default,
        aten._unsafe_view.default,
        aten.view.default,
    ),
    (0,),
)
EACH_PART |= dict.fromkeys(
    (
        aten.cat.default,
        aten.copy.default,
        aten.select_scatter.default,
        aten.slice_scatter.default,
        aten.stack.default,
    ),
    (0, 1),
)
EACH_PART[aten.index_put.default] = (0, 2)


def _each(operator: Any, value: Any, *arguments: Any, dtype: Any = None) -> Any:
    """Adds up both parts. A dtype that makes real numbers complex has no rule."""
    if not isinstance(value, Complex) or dtype not in (None, *PART_DTYPES):
        return NotImplemented
    kind = PART_DTYPES.get(dtype)
    return Complex(*(operator(part, *arguments, dtype=kind) for part in value))


@rule(aten.sum.default, aten.sum.dim_IntList)
def _sum(value: Any, *arguments: Any, dtype: Any = None) -> Any:
    return _each(torch.sum, value, *arguments, dtype=dtype)


@rule(aten.mean.default, aten.mean.dim)
def _mean(value: Any, *arguments: Any, dtype: Any = None) -> Any:
    return _each(torch.mean, value, *arguments, dtype=dtype)


@rule(aten.cumsum.default)
def _cumsum(value: Any, *arguments: Any, dtype: Any = None) -> Any:
    return _each(torch.cumsum, value, *arguments, dtype=dtype)


@rule(aten.constant_pad_nd.default)
def _constant_pad(value: Complex, pad: Sequence[Any], fill: Any = 0) -> Complex:
    fill_re, fill_im = parts(fill)
    pads = torch.nn.functional.pad
    re = pads(value.re, list(pad), value=fill_re)
    return Complex(re, pads(value.im, list(pad), value=fill_im or 0.0))


@rule(aten.view_as_complex.default)
def _view_as_complex(pairs: Tensor) -> Complex:
    return Complex(pairs.select(-1, 0), pairs.select(-1, 1))


def real_as_complex(value: Tensor) -> Complex:
    """A real tensor where an operator may also get a complex one."""
    return widened(value, None)


@rule(aten._to_copy.default)
def _to_copy(value: Any, *, dtype: Any = None, **_: Any) -> Any:
    if not isinstance(value, Complex):
        return widened(value.to(PART_DTYPES[dtype]), None)
    if dtype is not None and not dtype.is_complex:
        return value.re.to(dtype) if dtype is not torch.bool else NotImplemented
    return Complex(value.re.clone(), value.im.clone())


@rule(aten.full.default)
def _full(size: Sequence[Any], fill: Any, *, dtype: Any = None, **_: Any) -> Any:
    if dtype not in PART_DTYPES:
        return NotImplemented
    re, im = parts(fill)
    kind = PART_DTYPES[dtype]
    return Complex(
        torch.full(size, re, dtype=kind), torch.full(size, im or 0.0, dtype=kind)
    )


@rule(aten.full_like.default, aten.zeros_like.default)
def _full_like(value: Any, fill: Any = 0, *, dtype: Any = None, **_: Any) -> Any:
    size = (value.re if isinstance(value, Complex) else value).shape
    if dtype is None and isinstance(value, Complex):
        re, im = parts(fill)
        made = torch.full(size, re, dtype=value.re.dtype)
        return widened(made, im)
    return _full(size, fill, dtype=dtype)


@rule(aten.empty.memory_format)
def _empty(size: Sequence[Any], *, dtype: Any = None, **_: Any) -> Any:
    return _full(size, 0.0, dtype=dtype)


@rule(aten.scalar_tensor.default)
def _scalar_tensor(fill: Any, *, dtype: Any = None, **_: Any) -> Any:
    return _full((), fill, dtype=dtype)
