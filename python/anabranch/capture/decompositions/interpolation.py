"""Decomposes linear interpolation in the place of PyTorch's own decomposition.

Eager PyTorch sums products, `(1 - a) * x + a * y`. PyTorch's decomposition computes
`x + a * (y - x)`, which is NaN where `x` is infinite, and where the difference
overflows. Eager PyTorch interpolates images of bytes in fixed point, first the columns,
then the rows; PyTorch's decomposition does not.

PyTorch's decomposition of the nearest neighbour takes integers, for which eager PyTorch
has no kernel."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._decomp.decompositions import (
    _compute_scale,
    upsample_compute_output_size,
)
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

from . import refusals

aten = torch.ops.aten
PACKETS = (
    aten.upsample_linear1d,
    aten.upsample_bilinear2d,
    aten.upsample_trilinear3d,
)
NEAREST = (
    aten.upsample_nearest1d,
    aten.upsample_nearest2d,
    aten.upsample_nearest3d,
    aten._upsample_nearest_exact1d,
    aten._upsample_nearest_exact2d,
    aten._upsample_nearest_exact3d,
)
# The keys under which PyTorch keeps its decompositions of these operators. A trace
# calls them there, before it looks into a table.
KEYS = (
    torch._C.DispatchKey.CompositeImplicitAutograd,
    torch._C.DispatchKey.Autograd,
)
# The largest number that is zero in float16.
ZERO_IN_FLOAT16 = 2.0**-25


def decompositions() -> dict[Any, Callable[..., Any]]:
    sized = {packet.default: _with_sizes for packet in PACKETS}
    return sized | {
        packet.vec: functools.partial(_with_sizes_or_factors, packet.default)
        for packet in PACKETS
    }


def _checks() -> dict[Any, Callable[..., Any]]:
    overloads = [packet.vec for packet in NEAREST]
    return dict.fromkeys([*overloads, *(p.default for p in NEAREST)], _nearest)


def _check_floats(x: torch.Tensor) -> None:
    if not x.is_floating_point() or x.itemsize == 1:
        raise refusals.Refused(f"eager PyTorch interpolates no {x.dtype}")


def _nearest(x: torch.Tensor, *_: Any) -> None:
    """Leaves it to PyTorch's decomposition. Refused: eager PyTorch has no kernel."""
    if x.dtype != torch.uint8:
        _check_floats(x)


class _Thread(threading.local):
    traces = False


_thread = _Thread()


@contextlib.contextmanager
def in_traces() -> Iterator[None]:
    """Traces of this thread take the operators apart by `decompositions()`."""
    for operator, parts in (decompositions() | _checks()).items():
        _install(operator, parts)
    before, _thread.traces = _thread.traces, True
    try:
        yield
    finally:
        _thread.traces = before


class _Kernel:
    """A kernel that stays in PyTorch's table for good: traces of other threads, and of
    other backends, go on to the kernel that PyTorch had there."""

    def __init__(self, operator: Any, parts: Any, others: Any) -> None:
        self.operator = operator
        self.parts = parts
        self.others = others

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _thread.traces:
            return self.others(*args, **kwargs)
        result = self.parts(*args, **kwargs)
        if result is None:
            return self.others(*args, **kwargs)
        if result is NotImplemented:
            with torch._C._AutoDispatchBelowAutograd():
                return self.operator(*args, **kwargs)
        return result


def _install(operator: Any, parts: Callable[..., Any]) -> None:
    """torch.export replaces kernels for a while, and may restore a table from before
    this call. So each trace looks again."""
    kernels = operator.py_kernels
    for key in KEYS:
        if key in kernels and not isinstance(kernels[key], _Kernel):
            kernels[key] = _Kernel(operator, parts, kernels[key])
            operator._dispatch_cache.clear()


def _with_sizes_or_factors(
    sized: Any,
    x: torch.Tensor,
    sizes: Sequence[int] | None,
    align_corners: bool,
    factors: Sequence[float] | None,
) -> torch.Tensor:
    """`sized` is the operator that takes sizes."""
    found = upsample_compute_output_size(x.size(), sizes, factors)
    return sized(x, found, align_corners, *(factors or ()))


def _with_sizes(
    x: torch.Tensor, sizes: Sequence[int], align_corners: bool, *factors: float | None
) -> Any:
    given = [*factors, *[None] * (len(sizes) - len(factors))]
    if x.is_floating_point():
        _check_floats(x)
        return _interpolate(x, sizes, align_corners, given)
    if x.dtype == torch.uint8 and len(sizes) == 2:
        return _interpolate_bytes(x, sizes, align_corners, given)
    return NotImplemented


def _interpolate(
    x: torch.Tensor,
    sizes: Sequence[int],
    align_corners: bool,
    factors: Sequence[float | None],
) -> torch.Tensor:
    """`sizes` and `factors` have one value for each dimension after the channels."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    layout = suggest_memory_format(x)
    dims = len(sizes)
    # Eager PyTorch rounds the weights there.
    small = x.dtype == torch.float16 and dims != 2 and layout == torch.contiguous_format
    neighbours = []
    for dim, (size, factor) in enumerate(zip(sizes, factors)):
        near, far, weight = _neighbours(
            x.shape[2 + dim], size, align_corners, factor, dtype, x.device
        )
        if small:
            weight = torch.where(weight > ZERO_IN_FLOAT16, weight, 0.0)
        trailing = [1] * (dims - 1 - dim)
        both = ((near, 1 - weight), (far, weight))
        neighbours.append([(p, w.view(-1, *trailing)) for p, w in both])
    grows = all(statically_known_true(o <= n) for o, n in zip(x.shape[2:-1], sizes))
    if grows and layout == torch.contiguous_format:
        result = _one_dimension_at_a_time(x, neighbours, dtype)
    else:
        result = _all_dimensions_at_once(x, neighbours, dtype)
    return result.to(x.dtype).contiguous(memory_format=layout)


# Of each dimension after the channels: the two neighbours' places and weights.
_Neighbours = list[list[tuple[torch.Tensor, torch.Tensor]]]


def _one_dimension_at_a_time(
    x: torch.Tensor, neighbours: _Neighbours, dtype: torch.dtype
) -> torch.Tensor:
    """Gathers single elements only along the last dimension, and only from `x`."""
    for dim, both in reversed(list(enumerate(neighbours, start=2))):
        a, b = (
            aten._unsafe_index(x, [None] * dim + [place]).to(dtype) * weight
            for place, weight in both
        )
        x = a + b
    return x


def _all_dimensions_at_once(
    x: torch.Tensor, neighbours: _Neighbours, dtype: torch.dtype
) -> torch.Tensor:
    """Reads no element of `x` that the result does not need."""
    dims = len(neighbours)
    places = [
        [place.view(-1, *[1] * (dims - 1 - dim)) for place, _ in both]
        for dim, both in enumerate(neighbours)
    ]
    values = [
        aten._unsafe_index(x, [None, None, *corner]).to(dtype)
        for corner in itertools.product(*places)
    ]
    for (_, near), (_, far) in reversed(neighbours):
        values = [a * near + b * far for a, b in zip(values[::2], values[1::2])]
    (result,) = values
    return result


def _interpolate_bytes(
    x: torch.Tensor,
    sizes: Sequence[int],
    align_corners: bool,
    factors: Sequence[float | None],
) -> torch.Tensor:
    layout = suggest_memory_format(x)
    for dim, trailing in ((3, ()), (2, (1,))):
        old, new = x.shape[dim], sizes[dim - 2]
        near, far, weight = _neighbours(
            old, new, align_corners, factors[dim - 2], torch.float64, x.device
        )
        bits = _fraction_bits(torch.maximum(weight, 1 - weight).max())
        total = 1 << (bits - 1)
        for place, part in ((near, 1 - weight), (far, weight)):
            whole = (part * (1 << bits) + 0.5).to(torch.int32).view(-1, *trailing)
            index = [None] * dim + [place]
            total = total + aten._unsafe_index(x, index).to(torch.int32) * whole
        x = (total >> bits).clamp(0, 255).to(torch.uint8)
    return x.contiguous(memory_format=layout)


def _fraction_bits(largest: torch.Tensor) -> torch.Tensor:
    """The most bits after the point with which a weight still fits into 16 bits."""
    bits = torch.arange(22, device=largest.device)
    too_many = (0.5 + largest * (1 << (bits + 1))).to(torch.int64) >= 1 << 15
    return 22 - too_many.sum()


def _neighbours(
    old: int,
    new: int,
    align_corners: bool,
    factor: float | None,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each of `new` points, its two neighbours among `old` points, and the weight of
    the second one."""
    if statically_known_true(old == new):
        align_corners, factor = False, None
    scale = _compute_scale(old, new, align_corners, factor)
    rounded = (torch.ones((), dtype=dtype, device=device) * scale).to(torch.float64)
    # Eager PyTorch multiplies and subtracts with one rounding; float64 holds products of
    # float32 exactly. A weight that is not quite zero keeps an infinity from being NaN.
    half = 0.0 if align_corners else 0.5
    points = torch.arange(new, device=device).to(torch.float64) + half
    source = (rounded * points - half).to(dtype).clamp(min=0)
    near = source.to(torch.int64).clamp(max=old - 1)
    # Eager PyTorch has no second point where the size stays as it is.
    step = torch.sym_min(1, torch.sym_max(new - old, old - new))
    return near, (near + step).clamp(max=old - 1), (source - near).clamp(0, 1)
